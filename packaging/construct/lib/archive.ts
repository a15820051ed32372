import { crc32 } from 'node:zlib';

/** The sizes of the records of a zip archive without their variable parts. */
const LOCAL = 30, ENTRY = 46, END = 22;

/**
 * Returns a zip archive with one more file, which is not compressed. The time of the file is fixed,
 * so that equal inputs have equal archives.
 */
export function withFile(archive: Buffer, name: string, data: Buffer): Buffer {
  const end = archive.lastIndexOf('PK\x05\x06', undefined, 'latin1');
  if (end < 0 || end + END > archive.length) {
    throw new Error('it is not a zip archive');
  }
  const count = archive.readUInt16LE(end + 10);
  const length = archive.readUInt32LE(end + 12);
  const start = archive.readUInt32LE(end + 16);
  const directory = archive.subarray(start, start + length);
  const title = Buffer.from(name);
  if (directory.includes(title)) {
    throw new Error(`it has a file ${name} already`);
  }

  const local = Buffer.alloc(LOCAL);
  local.write('PK\x03\x04', 'latin1');
  describe(local, 4, title, data);

  const entry = Buffer.alloc(ENTRY);
  entry.write('PK\x01\x02', 'latin1');
  entry.writeUInt16LE((3 << 8) | 20, 4); // made on Unix
  describe(entry, 6, title, data);
  entry.writeUInt32LE((0o100644 << 16) >>> 0, 38); // a file that all users can read
  entry.writeUInt32LE(start, 42);

  const last = Buffer.from(archive.subarray(end, end + END));
  last.writeUInt16LE(count + 1, 8);
  last.writeUInt16LE(count + 1, 10);
  last.writeUInt32LE(length + ENTRY + title.length, 12);
  last.writeUInt32LE(start + LOCAL + title.length + data.length, 16);
  last.writeUInt16LE(0, 20);
  return Buffer.concat([archive.subarray(0, start), local, title, data, directory, entry, title, last]);
}

/** Writes the fields that both records of a file have. */
function describe(record: Buffer, at: number, name: Buffer, data: Buffer): void {
  record.writeUInt16LE(20, at); // the version of the format
  record.writeUInt16LE(0x21, at + 8); // 1 January 1980
  record.writeUInt32LE(crc32(data), at + 10);
  record.writeUInt32LE(data.length, at + 14);
  record.writeUInt32LE(data.length, at + 18);
  record.writeUInt16LE(name.length, at + 22);
}

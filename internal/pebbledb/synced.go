package pebbledb

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// syncedName is the file in the database folder that records how much of each log was synced.
//
// Pebble cannot tell a damaged log from one whose end a crash left unfinished: it drops the damaged
// record and everything behind it without a word. This file can tell. It lists the live write-ahead
// logs and manifests with the length that was synced and the checksum of those bytes, and the
// marker files. Open checks the list before Pebble reads anything.
//
// No crash makes the list claim too much, because of the order of steps:
//
//   - A file is listed after its data and its name were synced.
//   - It leaves the list, and the list is synced, before Pebble removes, overwrites or reuses it.
//   - Most updates are not synced. After a power failure an older list may be on disk, which claims
//     less. After a kill the page cache still has the newest one.
//
// The file has four slots. Synced updates alternate between the first two and the others between
// the last two, so a torn write leaves at least one synced slot readable. The readable slot with
// the highest sequence number counts.
const syncedName = "SYNCED"

const (
	slotMagic   = "once"
	slotSize    = 16 << 10
	syncedSlots = 2 // slots 0 and 1
	quickSlots  = 2 // slots 2 and 3
	// slotHeader is magic(4) sequence(8) body length(4).
	slotHeader = 16
	// syncEvery is the number of updates that a power failure may lose. A lost update protects
	// less, but claims nothing false.
	syncEvery = 64
)

// A prefix is the synced part of a file.
type prefix struct {
	length int64
	sum    uint32 // CRC-32C
}

func (p *prefix) add(b []byte) {
	p.length += int64(len(b))
	p.sum = crc32.Update(p.sum, castagnoli(), b)
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// A synced is the open file.
type synced struct {
	fs  vfs.FS
	dir string

	mu       sync.Mutex
	file     vfs.File
	sequence uint64
	turn     uint64 // counts synced updates: they alternate between their slots
	unsynced int    // updates since the last synced one
	exists   bool   // the database was opened once: from then on it is never taken for a new one
	files    map[string]prefix
	buf      []byte
}

// tracked reports whether Pebble's file is listed.
func tracked(name string) bool {
	return strings.HasSuffix(name, ".log") || strings.HasPrefix(name, "MANIFEST-") || isMarker(name)
}

func isMarker(name string) bool { return strings.HasPrefix(name, "marker.") }

func isManifest(name string) bool { return strings.HasPrefix(name, "MANIFEST-") }

// ofDatabase reports whether a file with this name exists only in the folder of a database.
func ofDatabase(name string) bool {
	return tracked(name) || strings.HasPrefix(name, "OPTIONS-") || strings.HasSuffix(name, ".sst")
}

// readSynced reads the list of a folder.
func readSynced(fs vfs.FS, dir string) (*synced, error) {
	f, err := fs.Open(fs.PathJoin(dir, syncedName))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s := &synced{fs: fs, dir: dir}
	newest := uint64(0) // of the synced slots
	for slot := range uint64(syncedSlots + quickSlots) {
		b := make([]byte, slotSize)
		n, err := f.ReadAt(b, int64(slot)*slotSize)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		next, ok := decodeSlot(b[:n])
		if !ok {
			continue
		}
		if slot < syncedSlots && next.sequence > newest {
			newest, s.turn = next.sequence, slot+1 // the other one is written next
		}
		if next.sequence > s.sequence {
			s.sequence, s.exists, s.files = next.sequence, next.exists, next.files
		}
	}
	if s.sequence == 0 {
		return nil, errUnreadable
	}
	return s, nil
}

// errUnreadable is returned if no slot of a list can be read.
var errUnreadable = errors.New("none of its slots can be read")

// createSynced replaces the list of a folder. If it is not finished, the folder has no database.
func createSynced(fs vfs.FS, dir string, exists bool) (*synced, error) {
	f, err := fs.Create(fs.PathJoin(dir, syncedName), vfs.WriteCategoryUnspecified)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return nil, err
	}
	s := &synced{fs: fs, dir: dir, exists: exists, files: map[string]prefix{}}
	if err := s.open(); err != nil {
		return nil, err
	}
	if err := errors.Join(s.save(true), syncFolder(fs, dir)); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

// open makes a list that was read writable.
func (s *synced) open() (err error) {
	s.file, err = s.fs.OpenReadWrite(s.fs.PathJoin(s.dir, syncedName), vfs.WriteCategoryUnspecified)
	return err
}

func (s *synced) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	var err error
	if s.exists {
		err = s.save(true)
	}
	err = errors.Join(err, s.file.Close())
	s.file = nil
	return err
}

// opened records that there is a database: from now on a folder without one is damaged. Until then
// nothing was acknowledged, and the list is kept in memory only.
func (s *synced) opened() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exists {
		return nil
	}
	s.exists = true
	return errors.Join(syncFolder(s.fs, s.dir), s.save(true))
}

// set adds a file whose first bytes were just synced.
func (s *synced) set(name string, p prefix) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil // the database is being closed, and nothing is acknowledged any more
	}
	_, known := s.files[name]
	// sync the name of a manifest before the marker that names it
	if !known && (s.exists || isManifest(name)) {
		// a listed file must be there after a power failure
		if err := syncFolder(s.fs, s.dir); err != nil {
			return err
		}
	}
	s.files[name] = p
	if !s.exists {
		return nil
	}
	s.unsynced++
	return s.save(!known || s.unsynced >= syncEvery)
}

// lengthOf returns how much of a file was synced.
func (s *synced) lengthOf(name string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[name].length
}

// drop removes files from the list, durably. Afterwards the files may be removed.
func (s *synced) drop(names ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.files)
	for _, name := range names {
		delete(s.files, name)
	}
	switch {
	case len(s.files) == before || !s.exists:
		return nil
	case s.file == nil:
		return errors.New("list of synced files is closed")
	}
	return s.save(true)
}

// save writes the list to the next slot.
func (s *synced) save(sync bool) error {
	s.sequence++
	slot := syncedSlots + s.sequence%quickSlots
	if sync {
		slot = s.turn % syncedSlots
	}
	s.buf = s.encode(s.buf[:0])
	if len(s.buf) > slotSize {
		return fmt.Errorf("list of synced files: %d files are too many", len(s.files))
	}
	if _, err := s.file.WriteAt(s.buf, int64(slot)*slotSize); err != nil {
		return err
	}
	if !sync {
		return nil
	}
	s.turn, s.unsynced = s.turn+1, 0
	return s.file.SyncData()
}

// encode appends a slot:
//
//	magic(4) sequence(8) body length(4) body checksum(4)
//
// The body is exists(1), and for each file name length(1) name length(8) sum(4).
func (s *synced) encode(b []byte) []byte {
	b = append(b, slotMagic...)
	b = binary.BigEndian.AppendUint64(b, s.sequence)
	b = append(b, 0, 0, 0, 0, 0)
	if s.exists {
		b[slotHeader] = 1
	}
	for name, p := range s.files {
		b = append(b, byte(len(name))) //nolint:gosec // Pebble's names are short
		b = append(b, name...)
		b = binary.BigEndian.AppendUint64(b, uint64(p.length)) //nolint:gosec // a length is not negative
		b = binary.BigEndian.AppendUint32(b, p.sum)
	}
	binary.BigEndian.PutUint32(b[slotHeader-4:], uint32(len(b)-slotHeader)) //nolint:gosec // at most slotSize
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli()))
}

// decodeSlot returns the list in a slot, or false if the slot is empty, torn or damaged.
func decodeSlot(b []byte) (*synced, bool) {
	if len(b) < slotHeader+1+4 || string(b[:len(slotMagic)]) != slotMagic {
		return nil, false
	}
	size := int(binary.BigEndian.Uint32(b[slotHeader-4:]))
	if size < 1 || size > len(b)-slotHeader-4 {
		return nil, false
	}
	end := slotHeader + size
	if crc32.Checksum(b[:end], castagnoli()) != binary.BigEndian.Uint32(b[end:]) {
		return nil, false
	}
	s := &synced{
		sequence: binary.BigEndian.Uint64(b[len(slotMagic):]),
		exists:   b[slotHeader] == 1,
		files:    map[string]prefix{},
	}
	for rest := b[slotHeader+1 : end]; len(rest) > 0; {
		n := 1 + int(rest[0])
		if len(rest) < n+12 {
			return nil, false
		}
		length := int64(binary.BigEndian.Uint64(rest[n:])) //nolint:gosec // written from an int64
		s.files[string(rest[1:n])] = prefix{length, binary.BigEndian.Uint32(rest[n+8:])}
		rest = rest[n+12:]
	}
	return s, true
}

// names returns the listed files in order.
func (s *synced) names() []string {
	names := make([]string, 0, len(s.files))
	for name := range s.files {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func syncFolder(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

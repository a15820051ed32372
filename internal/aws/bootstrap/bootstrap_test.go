package bootstrap_test

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/aws/bootstrap"
)

// program returns the part of a Go program for arm64 that is read: the header, and a segment with
// the build information. See package debug/buildinfo.
func program(t *testing.T, settings string) io.ReaderAt {
	t.Helper()
	mark := strings.Repeat("-", 16)
	info := append([]byte("\xff Go buildinf:\x08\x02"), make([]byte, 16)...)
	for _, text := range []string{"go1.26", mark + settings + mark} {
		info = append(binary.AppendUvarint(info, uint64(len(text))), text...)
	}
	const headers = 64 + 56
	var out bytes.Buffer
	for _, part := range []any{
		elf.Header64{
			Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
			Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_AARCH64), Version: uint32(elf.EV_CURRENT), Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
		},
		elf.Prog64{
			Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_W), Off: headers, Vaddr: 1 << 16, Filesz: uint64(len(info)), Memsz: uint64(len(info)), Align: 16,
		},
		info,
	} {
		if err := binary.Write(&out, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return bytes.NewReader(out.Bytes())
}

func TestAProgramForAnotherArchitectureOrWithoutACollectorIsRefused(t *testing.T) {
	for _, c := range []struct {
		tags, architecture string
		collector          bool
		want               string
	}{
		{"lambda.norpc,nootlp", "arm64", false, ""},
		{"nootlp", "amd64", false, "is built for EM_AARCH64, and the architecture is amd64"},
		{"nootlp", "arm64", true, "is built with the tag nootlp"},
		{"lambda.norpc,nootlp", "arm64", true, "is built with the tag nootlp"},
		{"lambda.norpc", "arm64", true, ""},
	} {
		err := bootstrap.Check(program(t, "path\tcommand-line-arguments\nbuild\t-tags="+c.tags+"\n"), c.architecture, c.collector)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := bootstrap.Check(strings.NewReader("#!/bin/sh\n"), "amd64", true); err != nil {
		t.Errorf("a script: %v", err)
	}
}

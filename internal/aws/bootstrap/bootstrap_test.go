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

// program returns the header of a Go program for arm64.
func program(t *testing.T) io.ReaderAt {
	t.Helper()
	var out bytes.Buffer
	if err := binary.Write(&out, binary.LittleEndian, elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_AARCH64), Version: uint32(elf.EV_CURRENT), Ehsize: 64,
	}); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(out.Bytes())
}

func TestAProgramForAnotherArchitectureIsRefused(t *testing.T) {
	for architecture, want := range map[string]string{"arm64": "", "amd64": "is built for EM_AARCH64, and the architecture is amd64"} {
		err := bootstrap.Check(program(t), architecture)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", architecture, err)
		}
	}
	if err := bootstrap.Check(strings.NewReader("#!/bin/sh\n"), "amd64"); err != nil {
		t.Errorf("a script: %v", err)
	}
}

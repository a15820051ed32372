package main

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// built returns a folder as `make archives` fills it, with scripts as functions. Its files have the
// given time and mode.
func built(t *testing.T, changed time.Time, mode os.FileMode) string {
	t.Helper()
	root := t.TempDir()
	for _, folder := range []string{"arm64", "amd64"} {
		for _, function := range []string{"ingest", "process", "publish"} {
			path := filepath.Join(root, folder, function, "bootstrap")
			if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("#!/bin/sh\necho "+folder+" "+function+"\n"), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, changed, changed); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

func packed(t *testing.T, from string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "release")
	if err := pack(from, to); err != nil {
		t.Fatal(err)
	}
	return to
}

func contents(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestTheSameProgramsMakeTheSameArchives(t *testing.T) {
	first := packed(t, built(t, time.Unix(1_700_000_000, 0), 0o600))
	second := packed(t, built(t, time.Unix(1_800_000_000, 0), 0o700))
	for _, name := range []string{"once-ingest-arm64.zip", "once-publish-x86_64.zip"} {
		if contents(t, filepath.Join(first, name)) != contents(t, filepath.Join(second, name)) {
			t.Errorf("two builds of %s differ", name)
		}
	}
}

func TestEachFunctionHasAnArchiveWithAnExecutableBootstrap(t *testing.T) {
	folder := packed(t, built(t, time.Now(), 0o600))
	for name, want := range map[string]string{
		"once-ingest-arm64.zip": "arm64 ingest", "once-process-x86_64.zip": "amd64 process", "once-publish-x86_64.zip": "amd64 publish",
	} {
		archive, err := zip.OpenReader(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		defer archive.Close()
		if len(archive.File) != 1 || archive.File[0].Name != "bootstrap" || archive.File[0].Mode() != 0o755 {
			t.Fatalf("%s has %+v", name, archive.File)
		}
		if changed := archive.File[0].Modified.UTC(); changed.Year() != 1980 {
			t.Errorf("%s has the time %v, so that the next build differs", name, changed)
		}
		in, err := archive.File[0].Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s has the program %q (%v), want that of %s", name, text, err, want)
		}
	}
}

func TestAMissingFunctionIsAnErrorThatNamesIt(t *testing.T) {
	from, missing := built(t, time.Now(), 0o600), filepath.Join("amd64", "publish", "bootstrap")
	if err := os.Remove(filepath.Join(from, missing)); err != nil {
		t.Fatal(err)
	}
	if err := pack(from, t.TempDir()); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v", err)
	}
}

func TestAFunctionForAnotherArchitectureIsRefused(t *testing.T) {
	from := built(t, time.Now(), 0o600)
	var arm bytes.Buffer
	header := elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)}, Type: uint16(elf.ET_EXEC),
		Machine: uint16(elf.EM_AARCH64), Version: uint32(elf.EV_CURRENT), Ehsize: 64,
	}
	if err := binary.Write(&arm, binary.LittleEndian, header); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(from, "amd64", "process", "bootstrap"), arm.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := pack(from, t.TempDir()); err == nil || !strings.Contains(err.Error(), "is built for") {
		t.Errorf("got %v", err)
	}
}

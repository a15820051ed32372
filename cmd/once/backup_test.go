package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/system/embedded/backup"
)

func TestABackupIsMadeVerifiedAndRestored(t *testing.T) {
	dir := folderWith(t)
	t.Chdir(t.TempDir())
	run := func(want int, args ...string) (string, string) {
		t.Helper()
		a, out, errs := onFolders()
		if code := a.run(t.Context(), args); code != want {
			t.Fatalf("once %s: exit %d: %s%s", strings.Join(args, " "), code, out, errs)
		}
		return out.String(), errs.String()
	}
	var made admin.BackupInfo
	out, _ := run(exitOK, "backup", "copy", "--data", dir, "--json")
	if err := json.Unmarshal([]byte(out), &made); err != nil || !filepath.IsAbs(made.Dir) || made.At.IsZero() {
		t.Errorf("%s, %v", out, err)
	}
	if out, _ := run(exitOK, "verify", "copy"); !strings.Contains(out, "no damage") {
		t.Error(out)
	}
	if _, errs := run(exitFailed, "restore", "copy", "--data", dir); !strings.Contains(errs, "is not empty") {
		t.Error(errs)
	}
	if _, errs := run(exitFailed, "restore", dir); !strings.Contains(errs, "is not a backup") {
		t.Error(errs)
	}
	out, _ = run(exitOK, "restore", "copy", "--data", "back")
	if !strings.Contains(out, "the next start stamps it") {
		t.Error(out)
	}
	if err := os.CopyFS("hand", os.DirFS("copy/data")); err != nil {
		t.Fatal(err)
	}
	if _, errs := run(exitFailed, "sweep", "--data", "hand"); !strings.Contains(errs, "run once restore --stamp hand") {
		t.Error(errs)
	}
	run(exitUsage, "restore", "--stamp", "hand", "--data", "hand")
	run(exitOK, "restore", "--stamp", "hand")
	run(exitOK, "sweep", "--data", "hand")
	run(exitOK, "sweep", "--data", "back")
	if out, _ := run(exitOK, "show", "--data", "back"); !strings.Contains(out, "ingress.fifo  1") {
		t.Error(out)
	}

	logs, err := filepath.Glob("copy/data/db/*.log")
	if err != nil || len(logs) == 0 {
		t.Fatal(logs, err)
	}
	for _, path := range logs {
		if err := os.Truncate(path, 1); err != nil {
			t.Fatal(err)
		}
	}
	var found backup.Verified
	out, _ = run(exitFailed, "verify", "copy", "--json")
	if err := json.Unmarshal([]byte(out), &found); err != nil || found.Damaged == 0 || !strings.Contains(found.Problems[0], "was cut") {
		t.Errorf("%s, %v", out, err)
	}
}

func TestTheServerThatRunsOnAFolderMakesItsBackup(t *testing.T) {
	t.Parallel()
	s := newDevServerWith(t, poolYAML)
	s.sendNumbers(t.Context(), 1, 5)
	dir := filepath.Join(t.TempDir(), "backup")
	if code, out := s.run("backup", dir, "--data", "data"); code != exitOK || !strings.Contains(out, "copied the data folder") {
		t.Fatalf("exit %d: %s", code, out)
	}
	if v, err := backup.Verify(t.Context(), dir, func(int) {}); err != nil || v.Damaged > 0 || v.Records == 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if code, out := s.run("restore", "--stamp", "data"); code != exitAway || !strings.Contains(out, "in use") {
		t.Errorf("a stamp: exit %d: %s", code, out)
	}
	if code, out := s.run("backup", dir, "--data", "data"); code != exitFailed || !strings.Contains(out, "exists already") {
		t.Errorf("again: exit %d: %s", code, out)
	}
}

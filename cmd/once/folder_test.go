package main

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/system/embedded"
)

func TestAFolderThatIsNoDataFolderIsRefusedAndNothingIsWrittenToIt(t *testing.T) {
	dir := t.TempDir()
	for name, open := range map[string]opening{"show": inspectFolder, "redrive and drop": editFolder, "sweep": repairFolder} {
		_, err := open(t.Context(), dir, config.Default())
		if err == nil || codeOf(err) != exitUsage || !strings.Contains(err.Error(), "is not a data folder") {
			t.Errorf("%s: exit %d, %v", name, codeOf(err), err)
		}
		if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
			t.Errorf("%s wrote %v, %v", name, names, err)
		}
	}
}

// TestAFolderWithOneFileOfADatabaseIsADamagedDataFolder removes all other files of a database.
func TestAFolderWithOneFileOfADatabaseIsADamagedDataFolder(t *testing.T) {
	whole := t.TempDir()
	s, err := embedded.Open(embedded.Options{DataDir: whole})
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(filepath.Join(whole, "db"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		dir, name := t.TempDir(), filepath.Join("db", f.Name())
		content, err := os.ReadFile(filepath.Join(whole, name))
		if err = errors.Join(err, os.Mkdir(filepath.Join(dir, "db"), 0o700), os.WriteFile(filepath.Join(dir, name), content, 0o600)); err != nil {
			t.Fatal(err)
		}
		want := "restore the data folder from a backup"
		if f.Name() == "LOCK" || strings.HasPrefix(f.Name(), "OPTIONS-") {
			want = "is not a data folder"
		}
		if _, err := inspectFolder(t.Context(), dir, config.Default()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %s only: %v", name, err)
		}
	}
	if len(files) < 5 {
		t.Errorf("%d files: %v", len(files), files)
	}
}

func TestADestinationThatCanNotBeOpenedIsAnErrorOfTheStartAndOfASweep(t *testing.T) {
	dir := t.TempDir()
	c, err := config.Parse("once.yaml", []byte("streams:\n  orders: {destinations: [out]}\ndestinations:\n  out: {file: "+dir+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	o := serverOptions{Config: c, DataDir: filepath.Join(dir, "data"), Listen: "127.0.0.1:0", Stdout: io.Discard, Log: slog.New(slog.DiscardHandler)}
	if _, err := openServer(o); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("start: %v", err)
	}
	if _, err := repairFolder(t.Context(), o.DataDir, c); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("sweep: %v", err)
	}
}

func TestTheBuiltInConfigurationWritesToTheDataFolder(t *testing.T) {
	t.Chdir(t.TempDir())
	cmd := (&app{}).dev()
	if err := cmd.Flags().Set("data", "other"); err != nil {
		t.Fatal(err)
	}
	c, err := load(cmd, defaultConfig)
	if want := filepath.Join("other", "messages.jsonl"); err != nil || c.Destinations["file"].File != want {
		t.Errorf("%+v, %v, want %s", c.Destinations, err, want)
	}
}

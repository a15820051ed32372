package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/config"
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

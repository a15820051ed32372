package embedded

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
)

// TestOthersCanNotReadADataFolderThatTheyMayEnter opens an existing folder.
func TestOthersCanNotReadADataFolderThatTheyMayEnter(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	for _, name := range []string{dir, filepath.Join(dir, "db")} {
		if err := os.Mkdir(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Parse("test", []byte("streams:\n  s: {destinations: [out]}\ndestinations:\n  out: {sqs: 'https://sqs.eu-west-1.amazonaws.com/1/q'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{DataDir: dir, Config: c})
	if err != nil {
		t.Fatal(err)
	}
	engine, err := s.Start(nil)
	if err != nil {
		t.Fatal(err)
	}
	if o := engine.Process(t.Context(), []record.Message{{Stream: "s", ID: "a", Body: []byte("secret")}})[0]; o.Kind != record.Processed {
		t.Fatal(o)
	}
	if err := s.blobs.Stage(t.Context(), "staged", []byte("secret")); err != nil {
		t.Fatal(err)
	}
	open := map[string]bool{dir: true}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || path == dir || !open[filepath.Dir(path)] {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if e.IsDir() {
			open[path] = info.Mode()&0o011 != 0
		} else if info.Mode()&0o044 != 0 {
			t.Errorf("%s can be read by others: %v", strings.TrimPrefix(path, dir), info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

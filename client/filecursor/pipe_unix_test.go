//go:build unix

package filecursor

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/effectively-once/once/client"
)

func TestAFileThatIsNoRegularOneIsRefusedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, t.TempDir()} {
		if err := checkFirst(path, client.SessionOptions{Stream: "work", Name: "a"}); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

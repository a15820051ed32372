package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// SyncFolder makes the names in a folder durable, and the folder's own name.
func SyncFolder(path string) error {
	if runtime.GOOS == "windows" {
		return nil // it syncs no folders
	}
	for _, p := range []string{path, filepath.Dir(path)} {
		f, err := os.Open(p) //nolint:gosec // the folder of the caller
		if err != nil {
			return err
		}
		if err := errors.Join(f.Sync(), f.Close()); err != nil {
			return fmt.Errorf("sync folder: %w", err)
		}
	}
	return nil
}

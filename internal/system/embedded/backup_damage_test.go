package embedded_test

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/system/embedded/backup"
)

// TestEveryDamageOfABackupIsFound changes a byte of each file, cuts it, and removes it.
func TestEveryDamageOfABackupIsFound(t *testing.T) {
	b := newBackedUp(t)
	random := rand.New(rand.NewPCG(1, 0))
	verify := func() (backup.Verified, error) { return backup.Verify(t.Context(), b.dir, func(int) {}) }
	if v, err := verify(); err != nil || v.Damaged > 0 || v.Records < 5 || v.Files != 1 {
		t.Fatalf("%+v, %v", v, err)
	}
	damaged := 0
	err := filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
		// Pebble's own lock, and the options that are removed at a start
		if err != nil || d.IsDir() || d.Name() == "LOCK" || strings.HasPrefix(d.Name(), "OPTIONS-") {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		changes := map[string]func() error{"removed": func() error { return os.Remove(path) }}
		if n := len(content); n > 0 && d.Name() != "backup.json" && d.Name() != "SYNCED" { // SYNCED has copies of itself
			changed := append([]byte{}, content...)
			changed[random.IntN(n)] ^= 1 << random.IntN(8)
			changes["changed"] = func() error { return os.WriteFile(path, changed, 0o600) }
			changes["cut"] = func() error { return os.WriteFile(path, content[:random.IntN(n)], 0o600) }
		}
		for how, change := range changes {
			if err := change(); err != nil {
				return err
			}
			if v, err := verify(); err == nil && v.Damaged == 0 {
				t.Errorf("%s was %s: %+v", path, how, v)
			}
			damaged++
			if err := os.WriteFile(path, content, 0o600); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || damaged < 8 {
		t.Errorf("%d damages, %v", damaged, err)
	}
	if v, err := verify(); err != nil || v.Damaged > 0 {
		t.Errorf("repaired: %+v, %v", v, err)
	}
}

package blob_test

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/blob"
)

func TestOrdinaryKeysAreAccepted(t *testing.T) {
	for _, key := range []string{
		"a", "a/b.txt", "...", "a..b", ".hidden", "a/.staged", ".staged2/x", "Überweisung 1/日本.pdf", "~", "-", strings.Repeat("x", 255), strings.Repeat("x/", 511) + "xx",
	} {
		if err := blob.Check(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
}

func TestPathTricksAndTheStoresOwnFoldersAreRefused(t *testing.T) {
	for _, key := range []string{
		"", "/", "/etc/passwd", "..", "../x", "a/../../x", "a/..", "a//b", "a/", "./a", ".", "a\x00b", "a\nb", `..\x`, `C:\x`, "a\xff",
		".staged", ".staged/s", ".STAGED/s", ".ſtaged/s", ".claims", ".Claims/x", strings.Repeat("x", 256), strings.Repeat("x/", 512) + "x",
	} {
		if _, invalid := errors.AsType[*blob.InvalidError](blob.Check(key)); !invalid {
			t.Errorf("%q is accepted", key)
		}
	}
	for _, staged := range []string{"", ".", "..", strings.Repeat("x", 256), strings.Repeat("/", 86)} {
		if _, err := blob.Escape(staged); !errors.As(err, new(*blob.InvalidError)) {
			t.Errorf("%q: %v", staged, err)
		}
	}
}

func FuzzAValidKeyStaysInsideAndOutOfTheStoresOwnFolders(f *testing.F) {
	for _, seed := range []string{"a/b", "../x", ".staged/x", ".claims/x", "/", `a\b`, "a/./b", "ü", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if blob.Check(key) != nil {
			return
		}
		if clean := path.Join("/objects", key); clean != "/objects/"+key {
			t.Errorf("%q is not clean: %q", key, clean)
		}
		for _, own := range []string{blob.Staged, blob.Claims} {
			if first, _, _ := strings.Cut(key, "/"); strings.EqualFold(first, own) {
				t.Errorf("%q leads to %s", key, own)
			}
		}
	})
}

func FuzzAStagedNameIsReadBack(f *testing.F) {
	for _, seed := range []string{"attempt.0", "a/b", "..", "%2F", "é", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, staged string) {
		part, err := blob.Escape(staged)
		if err != nil {
			return
		}
		if strings.Contains(part, "/") || path.Clean(part) != part {
			t.Errorf("%q becomes %q", staged, part)
		}
		if back, ok := blob.Unescape(part); !ok || back != staged {
			t.Errorf("%q becomes %q and is read back as %q", staged, part, back)
		}
	})
}

package mistakes_test

import (
	"errors"
	"os"
	"testing"

	"github.com/effectively-once/once/prove/explore/mistakes"
)

const root = "../../.."

// Whether each is caught takes minutes and a compiler to find out: go -C prove run . -only mistakes.
func TestEveryMistakeCanStillBeMade(t *testing.T) {
	list, err := mistakes.Load(os.DirFS("testdata"), "mistakes*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list {
		if err := m.Fits(root); err != nil {
			t.Error(err)
		}
	}
}

func TestAChangeThatIsNoMistakeSurvives(t *testing.T) {
	m := mistakes.Mistake{
		Name:    "none",
		Changes: []mistakes.Change{{File: "internal/record/doc.go", Old: "package record\n", New: "package record // changed\n"}},
		Test:    &mistakes.Test{Package: "./internal/record", Run: "TestRanges"},
	}
	if err := made(t, m); !errors.Is(err, mistakes.ErrSurvived) {
		t.Errorf("got %v", err)
	}
}

func TestAChangeThatDoesNotCompileIsNoCatch(t *testing.T) {
	m := mistakes.Mistake{
		Name:    "broken",
		Changes: []mistakes.Change{{File: "internal/record/doc.go", Old: "package record\n", New: "package record {\n"}},
		Test:    &mistakes.Test{Package: "./internal/record", Run: "TestRanges"},
	}
	if err := made(t, m); err == nil || errors.Is(err, mistakes.ErrSurvived) {
		t.Errorf("got %v", err)
	}
}

func made(t *testing.T, m mistakes.Mistake) error {
	t.Helper()
	j, err := mistakes.Join(t.Context(), root, t.TempDir(), []mistakes.Mistake{m})
	if err != nil {
		t.Fatal(err)
	}
	_, err = j.Make(t.Context(), 0)
	return err
}

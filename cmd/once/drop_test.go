package main

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/system/deployed"
)

func TestDropAsksBeforeItDeletes(t *testing.T) {
	for _, c := range []struct {
		answer  string
		code    int
		dropped bool
	}{{"y\n", exitOK, true}, {"yes\n", exitOK, true}, {"\n", exitIncomplete, false}, {"n\n", exitIncomplete, false}, {"", exitIncomplete, false}} {
		w := newWorld(t)
		w.typed = true
		if code := w.once(t.Context(), c.answer, "drop", "--id", "p-1", "--data", "testdata"); code != c.code || w.folder.dropped != c.dropped {
			t.Errorf("answer %q: exit %d, dropped %v: %s", c.answer, code, w.folder.dropped, w.err.String())
		}
		if !strings.Contains(w.err.String(), "p-1") || !strings.Contains(w.err.String(), "drop 1 dead letter for ever? [y/N]") {
			t.Errorf("it asks %q", w.err.String())
		}
		if c.dropped && !slices.Equal(w.folder.asked.MessageIDs, []string{"m-9"}) {
			t.Errorf("letters that were not listed are dropped too: %+v", w.folder.asked)
		}
		if c.dropped && w.folder.asked.By == "" {
			t.Error("the log can't tell who dropped it")
		}
	}
}

func TestARedriveNamesEachDeadLetterThatItCouldNotPutBack(t *testing.T) {
	w := newWorld(t)
	w.folder.failed = 1
	if code := w.once(t.Context(), "", "redrive", "--data", "testdata"); code != exitIncomplete {
		t.Errorf("exit %d", code)
	}
	for _, want := range []string{"o-1", "once-grup was malformed", "ingress-dead"} {
		if !strings.Contains(w.out.String(), want) {
			t.Errorf("no %q in %q", want, w.out.String())
		}
	}
	if w.once(t.Context(), "", "redrive", "--data", "testdata", "--json"); !strings.Contains(w.out.String(), `"error": "once-grup was malformed"`) {
		t.Errorf("JSON without the failure: %s", w.out.String())
	}
}

func TestADeadLetterThatIsNotFoundOnAStackMayBeBehindOthersOfItsGroup(t *testing.T) {
	if err := noLetter(&deployed.System{}, "o-1"); !errors.Is(err, admin.ErrNotFound) || !strings.Contains(err.Error(), "first ten") {
		t.Errorf("on a stack: %v", err)
	}
	if err := noLetter(newCannedFolder(), "o-1"); !errors.Is(err, admin.ErrNotFound) || strings.Contains(err.Error(), "first ten") {
		t.Errorf("in a folder: %v", err)
	}
}

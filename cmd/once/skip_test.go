package main

import (
	"strings"
	"testing"

	"github.com/effectively-once/once/internal/admin"
)

func TestSkipShowsTheEffectAndAsksBeforeItMakesADeadLetter(t *testing.T) {
	for _, c := range []struct {
		answer  string
		code    int
		skipped bool
	}{{"y\n", exitOK, true}, {"\n", exitIncomplete, false}, {"", exitIncomplete, false}} {
		w := newWorld(t)
		w.typed = true
		if code := w.once(t.Context(), c.answer, "skip", "chat/room/1", "12", "--data", "testdata"); code != c.code || (w.folder.skipped != nil) != c.skipped {
			t.Errorf("answer %q: exit %d, skipped %v: %s", c.answer, code, w.folder.skipped, w.err.String())
		}
		for _, want := range []string{"effect 12 of message m1", "destination shop", "field x missing", "make it a dead letter? [y/N]"} {
			if !strings.Contains(w.err.String(), want) {
				t.Errorf("no %q in the question: %s", want, w.err.String())
			}
		}
		want := admin.SkipOptions{Stream: "chat", Group: "room/1", Number: 12}
		if c.skipped && (*w.folder.skipped != want || !strings.Contains(w.out.String(), "once redrive --id chat/room/1/12")) {
			t.Errorf("%+v: %s", w.folder.skipped, w.out.String())
		}
	}
}

func TestSkipOfAnEffectThatIsNotPendingExitsWithOneAndSkipsNothing(t *testing.T) {
	for _, arguments := range [][]string{{"chat/room/1", "11"}, {"chat/other", "12"}, {"chat/room/1", "11", "--yes"}} {
		w := newWorld(t)
		w.typed = true
		code := w.once(t.Context(), "y\n", append([]string{"skip", "--data", "testdata"}, arguments...)...)
		if code != exitUnknown || w.folder.skipped != nil || !strings.Contains(w.err.String(), "pending effect "+arguments[1]) {
			t.Errorf("%v: exit %d: %s", arguments, code, w.err.String())
		}
	}
}

func TestSkipNeedsAGroupANumberAndSomebodyToAsk(t *testing.T) {
	for _, arguments := range [][]string{{"chat", "12", "--yes"}, {"chat/", "12", "--yes"}, {"chat/room/1", "x", "--yes"}, {"chat/room/1", "-1", "--yes"}, {"chat/room/1", "12"}} {
		w := newWorld(t)
		if code := w.once(t.Context(), "", append([]string{"skip", "--data", "testdata"}, arguments...)...); code != exitUsage || w.folder.skipped != nil {
			t.Errorf("%v: exit %d: %s", arguments, code, w.err.String())
		}
	}
}

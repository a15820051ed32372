package e2e

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// restoredLine is the form of a message whose key is its body.
const restoredLine = `{"group":"g","key":%q,"content_type":"text/plain","body":%[1]q}`

// A putBack is a system whose data folder is copied and put back while it is stopped. Its effects go
// to a linked system, which remembers epochs and numbers.
type putBack struct {
	*server
	to       *server
	config   string
	restores []string
	stamps   bool // in place of the list
}

func newPutBack(t *testing.T) *putBack {
	t.Helper()
	to := newServer(t, onceBinary, "name: us\nstreams:\n  room: {admission: sequence, log: {retain: 1h}}\n")
	config := fmt.Sprintf("name: eu\nstreams:\n  room: {destinations: [us]}\ndestinations:\n  us: {once: %q, stream: room, %s}\n", to.url(), quickRetry)
	p := &putBack{server: newServer(t, onceBinary, config), to: to, config: config}
	must(t, to.start(), p.start())
	return p
}

func (p *putBack) say(t *testing.T, bodies ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	for _, body := range bodies {
		must(t, sendLines(ctx, p.server, []string{fmt.Sprintf(restoredLine, body)}))
	}
}

// arrived waits until the other system has entries, which have to be those.
func (p *putBack) arrived(t *testing.T, want ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), drainTime)
	defer cancel()
	var got []string
	entries, err := readLog(ctx, p.to, "g", len(want))
	for _, e := range entries {
		got = append(got, e.Body)
	}
	if err != nil || !slices.Equal(got, want) {
		t.Fatalf("the log has %q, %v, and not %q", got, err, want)
	}
}

// copy copies the folder of the stopped system.
func (p *putBack) copy(t *testing.T, name string) {
	t.Helper()
	must(t, p.stop(), os.CopyFS(p.path(name), os.DirFS(p.path(".once"))), p.start())
}

// restore puts the folder back, and stamps it or lists the restore.
func (p *putBack) restore(t *testing.T, name string) {
	t.Helper()
	must(t, p.stop(), os.RemoveAll(p.path(".once")), os.CopyFS(p.path(".once"), os.DirFS(p.path(name))))
	if p.stamps {
		_, err := p.once("restore", "--stamp", ".once")
		must(t, err)
	} else {
		p.list(t)
	}
	must(t, p.start())
}

// bothWays runs a test twice: restores are stamped, and restores are listed.
func bothWays(t *testing.T, test func(t *testing.T, p *putBack)) {
	for name, stamps := range map[string]bool{"stamped": true, "listed": false} {
		t.Run(name, func(t *testing.T) {
			p := newPutBack(t)
			p.stamps = stamps
			test(t, p)
		})
	}
}

// list adds the present time to the restores of the system.
func (p *putBack) list(t *testing.T) {
	t.Helper()
	p.restores = append(p.restores, time.Now().UTC().Format(time.RFC3339Nano))
	must(t, p.configure(p.config+"restores: ["+strings.Join(p.restores, ", ")+"]\n"))
}

// letters returns the dead letters of both systems.
func (p *putBack) letters(t *testing.T) (all []letter) {
	t.Helper()
	for _, s := range []*server{p.server, p.to} {
		list, err := s.deadLetters()
		must(t, err)
		all = append(all, list...)
	}
	return all
}

func TestNoNewEffectIsDroppedAfterAFolderWasPutBack(t *testing.T) {
	bothWays(t, noNewEffectIsDropped)
}

func noNewEffectIsDropped(t *testing.T, p *putBack) {
	t.Helper()
	p.say(t, "a")
	p.arrived(t, "a")
	must(t, p.to.stop())
	p.say(t, "b")
	p.copy(t, "pending") // with the effect of b
	must(t, p.to.start())
	p.say(t, "c", "d")
	p.arrived(t, "a", "b", "c", "d")

	p.restore(t, "pending")
	p.say(t, "e", "f", "a", "b", "c") // that c was processed is forgotten
	p.arrived(t, "a", "b", "c", "d", "e", "f", "c")

	p.copy(t, "second")
	p.say(t, "h")
	p.arrived(t, "a", "b", "c", "d", "e", "f", "c", "h")
	p.restore(t, "second")
	p.say(t, "i", "h")
	p.arrived(t, "a", "b", "c", "d", "e", "f", "c", "h", "i", "h")
	if letters := p.letters(t); len(letters) > 0 {
		t.Errorf("dead letters: %+v", letters)
	}
}

// TestAnEffectThatIsPendingInACopyThatIsPutBackTwiceIsADeadLetterOfItsReceiver: the receiver has
// taken it, and remembers no numbers of an epoch that has ended.
func TestAnEffectThatIsPendingInACopyThatIsPutBackTwiceIsADeadLetterOfItsReceiver(t *testing.T) {
	bothWays(t, pendingEffectIsADeadLetter)
}

func pendingEffectIsADeadLetter(t *testing.T, p *putBack) {
	t.Helper()
	must(t, p.to.stop())
	p.say(t, "a")
	p.copy(t, "pending")
	must(t, p.to.start())
	p.restore(t, "pending")
	p.say(t, "b")
	p.arrived(t, "a", "b")
	p.restore(t, "pending")
	p.say(t, "c")
	p.arrived(t, "a", "b", "c")
	letters := p.letters(t)
	if len(letters) != 1 || letters[0].Reason != "stale-epoch" {
		t.Errorf("dead letters: %+v", letters)
	}
}

// TestASystemThatWasPutBackTakesNewEffectsWhenItsSenderListsARestore puts the folder of the receiver
// back. It waits for the numbers that it has forgotten, until its sender begins new epochs.
func TestASystemThatWasPutBackTakesNewEffectsWhenItsSenderListsARestore(t *testing.T) {
	p := newPutBack(t)
	p.say(t, "a")
	p.arrived(t, "a")
	data, copied := p.to.path(".once"), p.to.path("copy")
	must(t, p.to.stop(), os.CopyFS(copied, os.DirFS(data)), p.to.start())
	p.say(t, "b", "c")
	p.arrived(t, "a", "b", "c")
	must(t, p.to.stop(), os.RemoveAll(data), os.CopyFS(data, os.DirFS(copied)), p.to.start())
	p.say(t, "d")
	ctx, cancel := context.WithTimeout(t.Context(), drainTime)
	defer cancel()
	must(t, poll(ctx, 50*time.Millisecond, func() (bool, error) {
		s, err := p.to.stats()
		return s.Held == 1, err
	}))
	must(t, p.stop())
	p.list(t)
	must(t, p.start())
	p.say(t, "e")
	p.arrived(t, "a", "e")
	letters := p.letters(t)
	if len(letters) != 1 || letters[0].Reason != "stale-epoch" || letters[0].Sequence != 4 {
		t.Errorf("dead letters: %+v, and not the effect of d", letters)
	}
}

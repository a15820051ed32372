package embedded

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/config"
	"github.com/effectively-once/once/internal/record"
)

// A bounded is a system whose clock and whose sweeps the test moves.
type bounded struct {
	*System
	t   *testing.T
	dir string
	now time.Time
	log bytes.Buffer
}

func (b *bounded) open(text string) {
	b.t.Helper()
	c, err := config.Parse("once.yaml", []byte("streams: {orders: {}}\n"+text))
	if err != nil {
		b.t.Fatal(err)
	}
	b.System, err = Open(Options{Config: c, DataDir: b.dir, Now: func() time.Time { return b.now }, Log: slog.New(slog.NewTextHandler(&b.log, nil))})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.Start(nil); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bounded) close() {
	b.t.Helper()
	if err := b.Close(); err != nil {
		b.t.Error(err)
	}
}

func (b *bounded) refuse(ids ...string) {
	b.t.Helper()
	for _, id := range ids {
		m := record.Message{Stream: "orders", ID: id, Group: "g", Body: []byte("x")}
		if err := b.System.now().pipeline.Queues.DeadLetter(b.t.Context(), []record.Refused{{Message: m, Reason: record.ReasonHandler}}); err != nil {
			b.t.Fatal(err)
		}
	}
}

// want compares the dead letters with how often each was refused, and the figures of their queue.
func (b *bounded) want(letters string, expiring int) {
	b.t.Helper()
	list, err := b.DeadLetters(b.t.Context(), admin.DeadLettersOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	var got []string
	for i := range list {
		got = append(got, fmt.Sprint(list[i].ID, "*", max(1, list[i].Count)))
	}
	if text := strings.Join(got, " "); text != letters {
		b.t.Errorf("letters %q, want %q", text, letters)
	}
	stats, err := b.Stats(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, q := range stats.Queues {
		if q.Queue == "ingress-dead" && q.Expiring != expiring {
			b.t.Errorf("%+v, want %d expiring", q, expiring)
		}
	}
}

// logged returns whether the log has a text since the last call.
func (b *bounded) logged(text string) bool {
	defer b.log.Reset()
	return strings.Contains(b.log.String(), text)
}

func TestDeadLettersAreAnnouncedForADayAndThenDropped(t *testing.T) {
	t.Parallel()
	b := &bounded{t: t, dir: t.TempDir(), now: time.Unix(1_800_000_000, 0)}
	b.open("")
	defer func() { b.close() }()
	b.refuse("a", "b")
	b.now = b.now.Add(2 * day)
	b.refuse("a", "c")
	b.now = b.now.Add(11*day - time.Minute)
	b.sweepLetters(b.now)
	b.want("b*1 a*2 c*1", 0)
	if b.logged("dead letters") {
		t.Error("letters are announced too early")
	}
	b.now = b.now.Add(2 * time.Minute)
	b.sweepLetters(b.now)
	b.want("b*1 a*2 c*1", 1)
	if !b.logged(`msg="dead letters will be dropped" queue=ingress-dead by=dead_letters.retain within_a_day=1`) {
		t.Error("a letter is not announced")
	}
	b.close()
	b.open("") // the time that a letter was announced outlives the process
	b.now = b.now.Add(day)
	b.sweepLetters(b.now)
	b.want("a*2 c*1", 0)
	if !b.logged(`msg="dead letters dropped" queue=ingress-dead stream=orders count=1`) {
		t.Error("a letter is dropped without a word")
	}
	b.now = b.now.Add(30 * day)
	b.sweepLetters(b.now)
	b.want("", 0)
}

// TestAFolderOfBeforeAnnouncesItsOldDeadLettersForADay has letters that became too old while no
// process ran, or one of a version that kept them for ever.
func TestAFolderOfBeforeAnnouncesItsOldDeadLettersForADay(t *testing.T) {
	t.Parallel()
	b := &bounded{t: t, dir: t.TempDir(), now: time.Unix(1_800_000_000, 0)}
	b.open("")
	defer func() { b.close() }()
	b.refuse("a")
	b.close()
	b.now = b.now.Add(100 * day)
	b.open("")
	b.sweepLetters(b.now)
	b.want("a*1", 1)
	if !b.logged("will be dropped") {
		t.Error("an old letter is not announced")
	}
	b.now = b.now.Add(day - time.Minute)
	b.sweepLetters(b.now)
	b.want("a*1", 1)
	b.now = b.now.Add(time.Minute)
	b.sweepLetters(b.now)
	b.want("", 0)
}

func TestBeyondTheBoundTheOldestDeadLettersAreDropped(t *testing.T) {
	t.Parallel()
	b := &bounded{t: t, dir: t.TempDir(), now: time.Unix(1_800_000_000, 0)}
	b.open("dead_letters: {most: 10, retain: 100d}")
	defer func() { b.close() }()
	for i := range 9 {
		b.refuse(fmt.Sprint(i))
	}
	b.sweepLetters(b.now)
	if stats, err := b.Stats(t.Context()); err != nil || !stats.Queues[4].NearlyFull() || !b.logged("letters=9 most=10") {
		t.Errorf("%+v, %v", stats.Queues, err)
	}
	b.refuse("0", "9", "10", "11")
	b.dropLetters(time.Time{})
	b.want("3*1 4*1 5*1 6*1 7*1 8*1 0*2 9*1 10*1 11*1", 0)
	if !b.logged("count=2") {
		t.Error("letters are dropped without a word")
	}
	w := httptest.NewRecorder()
	b.metrics.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if !strings.Contains(w.Body.String(), `once_dead_letter_dropped_total{stream="orders"} 2`) {
		t.Errorf("dropped letters are not counted:\n%s", w.Body)
	}
	c, err := config.Parse("once.yaml", []byte("streams: {orders: {}}\ndead_letters: {most: 2}"))
	if err != nil {
		t.Fatal(err)
	}
	if changed, err := b.Reconfigure(t.Context(), c); err != nil || len(changed) == 0 {
		t.Fatal(changed, err)
	}
	b.dropLetters(time.Time{})
	b.want("10*1 11*1", 0)
}

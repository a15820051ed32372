package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/e2e/chaos"
)

var (
	chaosFunctionMessages = flag.Int("chaos-functions", 300, "how many messages the chaos run on functions offers; the embedded one offers -messages")
	chaosEvery            = flag.Duration("chaos-every", 400*time.Millisecond, "mean time between two bad things in a chaos run")
	chaosCut              = flag.Float64("chaos-cut", 0.01, "share of calls that are cut in a chaos run")
	chaosClients          = flag.Int("chaos-clients", 32, "how many clients of a chaos run send at once")
	chaosTrouble          = flag.Float64("chaos-trouble", 0.01, "share of webhooks that fail in a chaos run")
	chaosPatience         = flag.Duration("chaos-patience", 3*time.Minute, "how long a chaos run waits for a system that sends nothing and is not done; then it is judged as it is")
	chaosLead             = flag.Int("chaos-lead", 10_000, "how many messages a chaos run offers before their effects have come")
	chaosKeep             = flag.String("chaos-keep", "", "folder in which the evidence of chaos runs is kept, and verdict.json; default none, unless a run fails")
)

// A chaos run offers messages to a system while all kinds of faults are injected, writes down the
// offers, answers and effects, and has them judged by a program that knows the product only by
// these files. See package chaos; go run ./chaos/judge FOLDER judges them again.
func TestChaosLeavesEveryMessageWithOneEffect(t *testing.T) {
	hold(t, chaosEmbedded(t, newChaosPlan("embedded", *messages), chaosBinary, (*embeddedTarget).faults))
}

func TestChaosOnFunctionsLeavesEveryMessageWithOneEffect(t *testing.T) {
	hold(t, chaosOnFunctions(t, newChaosPlan("functions", *chaosFunctionMessages)))
}

// A chaosRun is one run and its evidence.
type chaosRun struct {
	chaos.Run
	folder  string
	began   time.Time
	random  *rand.Rand
	plan    chaosPlan
	scribe  *scribe
	clients *hurlers
}

// A chaosPlan has the properties in which runs of a form differ.
type chaosPlan struct {
	form     string
	messages int
	trouble  float64 // share of webhooks that fail
	cut      float64 // share of calls that are cut
	// the wait for a system that is not done, sends nothing, and may still continue
	patience time.Duration
}

func newChaosPlan(form string, messages int) chaosPlan {
	return chaosPlan{form: form, messages: messages, trouble: *chaosTrouble, cut: *chaosCut, patience: *chaosPatience}
}

func newChaosRun(t *testing.T, plan chaosPlan) *chaosRun {
	t.Helper()
	r := &chaosRun{plan: plan}
	r.Form, r.Seed = plan.form, *seed
	if r.Seed == 0 {
		r.Seed = rand.Uint64()
	}
	r.random = rand.New(rand.NewPCG(r.Seed, 0))
	var err error
	if *chaosKeep == "" {
		r.folder, err = os.MkdirTemp("", "once-chaos-"+plan.form) //nolint:usetesting // it is kept when the run fails
	} else {
		r.folder = filepath.Join(*chaosKeep, plan.form)
		must(t, os.RemoveAll(r.folder))
		err = os.MkdirAll(r.folder, 0o755)
	}
	must(t, err)
	t.Cleanup(func() {
		if *chaosKeep == "" && !t.Failed() {
			must(t, os.RemoveAll(r.folder))
			return
		}
		t.Logf("chaos: the evidence is in %s; go -C e2e run ./chaos/judge %s", r.folder, r.folder)
	})
	t.Logf("chaos: %s: %d messages; random choices: -seed=%d", plan.form, plan.messages, r.Seed)
	r.scribe = newScribe(t, r.folder, plan.trouble)
	r.Destinations, r.Ordered = map[string][]string{}, []string{"keyed", "issued", "numbered"}
	for _, stream := range chaosStreams {
		r.Destinations[stream] = []string{"ledger", "posts"}
	}
	return r
}

func (r *chaosRun) path(name string) string { return filepath.Join(r.folder, name) }

// weather injects faults while clients offer most of the messages. The last messages are sent after
// it, through connections that are still cut to a receiver that still fails: a restarted system
// looks for unfinished work, and the run must not pass because of that.
func (r *chaosRun) weather(t *testing.T, front *cutter, senders map[string]*sqsSender, s *storm) {
	t.Helper()
	r.clients, r.began = newHurlers(t, r.folder, front.url, senders, r.scribe.fresh.Load), time.Now()
	ctx, fail := context.WithCancelCause(t.Context())
	defer fail(nil)
	s.progress, s.stride = func() int64 { return r.clients.accepted.Load() + r.scribe.fresh.Load() }, int64(min(r.plan.messages/50, 600))
	calm, raged := make(chan struct{}), make(chan error, 1)
	go func() {
		err := s.rage(ctx, calm)
		if err != nil {
			fail(err)
		}
		raged <- err
	}()
	load := newChaosLoad(newChaosRandom(r.random), r.plan.messages)
	go r.report(ctx, t, s)
	err := r.clients.hurl(ctx, load, r.plan.messages-min(r.plan.messages/10, chaosBlock), *chaosClients)
	close(calm)
	must(t, err, <-raged)
	t.Logf("chaos: the storm is over after %v: %v", r.elapsed(), s.counts())
	must(t, r.clients.hurl(ctx, load, r.plan.messages, *chaosClients), r.clients.offered.close(), r.clients.told.close())
	t.Logf("chaos: all is offered and accepted after %v", r.elapsed())
}

// elapsed is for people: the report of a run says how long it took.
func (r *chaosRun) elapsed() time.Duration {
	return time.Since(r.began).Round(time.Second) // real time: the figure of a report
}

// report logs the progress at intervals.
func (r *chaosRun) report(ctx context.Context, t *testing.T, s *storm) {
	for sleep(ctx, 15*time.Second) == nil {
		t.Logf("chaos: %s: %v: %d parcels accepted, %d effects received, %d in all; %v", r.Form, r.elapsed(), r.clients.accepted.Load(), r.scribe.fresh.Load(), r.scribe.handled.Load(), s.counts())
	}
}

// An undone is the work that a system has left. It is stuck if no queue holds anything that could
// make it continue while a check waits: a delayed trigger does not.
type undone struct {
	left  []string
	stuck bool
}

// looks returns how often something is looked at, every settleEvery, in a time.
func looks(d time.Duration) int { return int(d / settleEvery) }

// settle waits until no work is left, or until nothing more happens: it is stuck each time that
// look is called, or nothing was sent for long. The judge decides about the rest.
func (r *chaosRun) settle(t *testing.T, look func() (undone, error)) {
	t.Helper()
	sends, quiet, stuck := r.scribe.handled.Load(), 0, 0
	must(t, poll(t.Context(), settleEvery, func() (bool, error) {
		now, err := look()
		quiet++
		if n := r.scribe.handled.Load(); n != sends {
			sends, quiet = n, 0
		}
		if stuck++; !now.stuck {
			stuck = 0
		}
		if stuck > 5 || quiet > looks(r.plan.patience) {
			r.Left = append(r.Left, now.left...)
			return true, err
		}
		return len(now.left) == 0, err
	}))
}

// bury writes the dead letters down.
func (r *chaosRun) bury(t *testing.T, letters []letter) {
	t.Helper()
	j, err := newJournal(r.folder, "letters.jsonl")
	must(t, err)
	for _, l := range letters {
		j.write(chaos.Letter{Reason: l.Reason, Stream: l.Stream, ID: l.ID})
	}
	must(t, j.close())
}

// verdict closes the evidence, has it judged, and writes the verdict beside it.
func (r *chaosRun) verdict(t *testing.T, faults ...map[string]int) *chaos.Verdict {
	t.Helper()
	r.Faults = map[string]int{}
	for _, f := range faults {
		maps.Copy(r.Faults, f)
	}
	r.Seconds = r.elapsed().Seconds()
	must(t, r.scribe.posts.close(), writeJSON(r.path("run.json"), r.Run))
	v, err := chaos.Judge(r.folder)
	must(t, err, writeJSON(r.path("verdict.json"), v))
	t.Logf("chaos: %s: %d offered, %d accepted, %d applied, %d sent (%d repeated under the same identity), %d key reuse refused, %d lost, %d doubled, %d wrong, %.0f s",
		r.Form, v.Offered, v.Accepted, v.Applied, v.Sent, v.Repeated, v.Refused, v.Lost, v.Doubled, v.Wrong, v.Seconds)
	return v
}

// hold checks that a verdict is good, and that faults were injected.
func hold(t *testing.T, v *chaos.Verdict) {
	t.Helper()
	for _, p := range v.Problems {
		t.Error(p)
	}
	var done []string
	for _, name := range slices.Sorted(maps.Keys(v.Faults)) {
		if v.Faults[name] == 0 {
			t.Errorf("no %s", name)
		}
		done = append(done, fmt.Sprintf("%d %s", v.Faults[name], name))
	}
	t.Logf("chaos: %s: %s", v.Form, strings.Join(done, ", "))
	if !v.OK() {
		t.Errorf("lost %d, doubled %d, wrong %d, accepted %d of %d", v.Lost, v.Doubled, v.Wrong, v.Accepted, v.Offered)
	}
}

func writeJSON(path string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

package e2e

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// faults returns the flags for the faults of the local Lambda host. Processes of the functions are
// killed at any moment, also while they start. Deliveries are duplicated, concurrently and after
// the first has been acknowledged. Processes hang until their timeout kills them, and their
// messages are redelivered.
func faults() []string {
	return []string{
		"--kill-every", killEvery.String(), "--duplicate", strconv.FormatFloat(*duplicate, 'g', -1, 64), "--hang", strconv.FormatFloat(*hang, 'g', -1, 64),
		"--timeout", "4s", "--visibility", "6s",
	}
}

func TestRealDeliveriesHaveOneEffectEachWhileTheFunctionsAreKilled(t *testing.T) {
	random := newRandom(t)
	input := deliveries(t)
	r := newReceiver(t, 0.1)
	d := newDeployment(t, r, faults()...)
	must(t, d.start())
	h := newHTTPSender(t, d.url(), "keyed")
	q := &sqsSender{client: d.sqs, stream: "keyed", urls: map[string]*string{"ingress": d.queue(t, "-ingress"), "ingress.fifo": d.queue(t, "-ingress.fifo")}}
	concurrently(t.Context(), t, 16, copies(random, input, 3), func(ctx context.Context, m sent) error {
		if len(m.body)%2 == 0 {
			return h.send(ctx, m)
		}
		return q.sendBatch(ctx, []sent{m})
	})
	await(t, "half of the effects while processes are killed", func() (bool, error) {
		posts, _ := r.seen()
		return len(posts) >= len(input)/2, nil
	})
	done := d.peace(t)
	d.settleTables(t)
	h.judge(t)
	d.judge(t, r, input, map[uint64]int{tokenDone: len(input)})
	t.Logf("faults: %v", done)
	for name, n := range done {
		if n == 0 {
			t.Errorf("no %s", name)
		}
	}
}

// peace drains the deployment, restarts it without faults, and returns the number of faults of each
// kind.
func (d *deployment) peace(t *testing.T) map[string]int {
	t.Helper()
	must(t, d.stop())
	log, err := os.ReadFile(d.path("server.log"))
	must(t, err)
	counts := map[string]int{}
	for line := range bytes.Lines(log) {
		if !bytes.Contains(line, []byte("faults injected")) {
			continue
		}
		for field := range strings.FieldsSeq(string(line)) {
			name, value, _ := strings.Cut(field, "=")
			if n, err := strconv.Atoi(value); err == nil {
				counts[name] += n
			}
		}
	}
	if len(counts) == 0 {
		t.Error("the log does not tell how many faults there were")
	}
	// the last value of a flag counts
	d.args = append(d.args, "--kill-every", "0", "--kill-nth", "0", "--duplicate", "0", "--hang", "0")
	must(t, d.start())
	return counts
}

// settleTables waits until no work is left in tables and queues.
func (d *deployment) settleTables(t *testing.T) {
	t.Helper()
	var left []string
	ctx, cancel := context.WithTimeout(t.Context(), settleTime)
	defer cancel()
	err := poll(ctx, settleEvery, func() (_ bool, err error) {
		left, err = d.leftovers(t)
		return len(left) == 0, err
	})
	if err != nil {
		t.Fatalf("%v: %d left over:\n%s", err, len(left), strings.Join(left, "\n"))
	}
}

// judge judges receiver, tables and dead letters.
func (d *deployment) judge(t *testing.T, r *receiver, input []sent, tokens map[uint64]int) {
	t.Helper()
	posts, problems := r.seen()
	(&verdict{problems}).report(t)
	judgePosts(input, posts).report(t)
	counts, err := d.tables.tokenCounts(t.Context())
	must(t, err)
	if diff := cmp.Diff(tokens, counts); diff != "" {
		t.Errorf("tokens by state (-want +got):\n%s", diff)
	}
	for _, name := range []string{"-ingress-dead", "-ingress-dead.fifo", "-publish-dead", "-publish-dead.fifo"} {
		dead, err := queueDepth(t.Context(), d.sqs, d.queue(t, name))
		must(t, err)
		for _, l := range dead {
			t.Error(l)
		}
	}
	t.Logf("%d messages, %d posts", len(input), len(posts))
}

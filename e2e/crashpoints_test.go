package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// crashStreams cover every path through the protocol: with and without a group record, each
// admission, one stream that feeds another, and one whose messages always go on the queue: those of
// the others do so by chance, if two calls of a group meet.
func crashStreams(url string, direct bool) string {
	return strings.ReplaceAll(`
streams:
  keyed:    {DIRECT, admission: key, destinations: [ledger, receiver]}
  loose:    {DIRECT, admission: key, order: none, destinations: [ledger]}
  issued:   {DIRECT, admission: token, destinations: [ledger]}
  numbered: {DIRECT, admission: sequence, destinations: [ledger]}
  first:    {DIRECT, admission: key, destinations: [ledger, next]}
  second:   {DIRECT, admission: sequence, destinations: [ledger]}
  queued:   {direct: false, admission: key, destinations: [ledger]}
  delayed:  {DIRECT, admission: key, destinations: [ledger]}
destinations:
  ledger:   {file: out/ledger.jsonl}
  receiver: {webhook: "`+url+`", secret: "env:E2E_WEBHOOK_SECRET"}
  next:     {stream: second}
`, "DIRECT", fmt.Sprintf("direct: %v", direct))
}

// crashPoints returns the points at which the binary can kill itself.
func crashPoints(t *testing.T) []string {
	t.Helper()
	binary, err := crashBinary()
	must(t, err)
	cmd := exec.CommandContext(t.Context(), binary, "dev")
	cmd.Env = append(os.Environ(), "ONCE_CRASH_AT=list")
	out, err := cmd.Output()
	must(t, err)
	return strings.Fields(string(out))
}

func TestACrashAtAnyStepLeavesEveryMessageWithOneEffect(t *testing.T) {
	points := crashPoints(t)
	if len(points) < 18 {
		t.Fatalf("there are only these crash points: %q", points)
	}
	crash := func(name, point string, direct bool, size int) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crashAt(t, point, direct, size)
		})
	}
	for _, point := range points {
		for _, n := range []int{1, 7} {
			at := fmt.Sprintf("%s:%d", point, n)
			crash(fmt.Sprintf("%s %d direct", point, n), at, true, 1)
			if !strings.HasSuffix(point, "-sync") { // only what is processed without the queue
				crash(fmt.Sprintf("%s %d", point, n), at, false, 1)
			}
		}
		crash(point+" direct batches", point+":2", true, 10)
	}
}

func TestThePageOfTheProtocolDescribesTheStateAfterACrashAtEachPoint(t *testing.T) {
	page, err := os.ReadFile("../docs/protocol.md")
	must(t, err)
	_, table, _ := strings.Cut(string(page), "\n| the process dies |")
	table, _, _ = strings.Cut(table, "\n\n")
	var listed []string
	for row := range strings.Lines(table) {
		if point, ok := strings.CutPrefix(row, "| `"); ok {
			point, _, _ = strings.Cut(point, "`")
			listed = append(listed, point)
		}
	}
	if d := cmp.Diff(crashPoints(t), listed); d != "" {
		t.Errorf("crash points of the binary and of the page:\n%s", d)
	}
}

// crashAt sends messages, so many in a request, to a process that kills itself at a point, restarts
// it, and judges the effects.
func crashAt(t *testing.T, point string, direct bool, size int) {
	t.Helper()
	r := newReceiver(t, 0)
	s := newServer(t, crashBinary, crashStreams(r.url, direct))
	s.env = []string{r.env(), "ONCE_CRASH_AT=" + point}
	p, err := s.launch()
	must(t, err)
	ctx, fail := context.WithCancelCause(t.Context())
	revived := make(chan error, 1)
	go func() {
		err := s.revive(p, r.env())
		if err != nil {
			fail(err)
		}
		revived <- err
	}()
	inputs := sendCrashLoad(ctx, t, s, size)
	inputs["queued"] = sendOneByOne(ctx, t, s, "queued", 10)
	if strings.Contains(point, "-move") { // of delayed messages only
		inputs["delayed"] = sendDelayed(ctx, t, s, p)
	}
	select {
	case err := <-revived:
		must(t, err)
	case <-time.After(2 * startTime):
		t.Fatalf("the process never came to %s", point)
	}
	s.settle(t, time.Minute)
	judgeCrash(t, s, r, inputs)
}

// revive waits for the process to kill itself and starts the next one, which does not.
func (s *server) revive(p *process, env ...string) error {
	<-p.gone
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		return fmt.Errorf("the process did not kill itself, but: %v\n%s", p.cmd.ProcessState, s.lastWords())
	}
	s.env = env
	return s.start()
}

// sendCrashLoad sends to every stream concurrently, each message twice and so many in a request,
// and returns the sent messages by stream.
func sendCrashLoad(ctx context.Context, t *testing.T, s *server, size int) map[string][]sent {
	t.Helper()
	random := newRandom(t)
	type addressed struct {
		stream string
		list   []sent
	}
	inputs := map[string][]sent{"numbered": number(random, 30, 3)}
	for _, stream := range []string{"keyed", "loose", "issued"} {
		inputs[stream] = generate(random, 30)
	}
	inputs["first"] = generate(random, 30)
	for i := range inputs["first"] {
		inputs["first"][i].group = fmt.Sprintf("g-%d", i%3)
	}
	var load []addressed
	senders := map[string]*httpSender{}
	for stream, input := range inputs {
		senders[stream] = newHTTPSender(t, s.url(), stream)
		for list := range slices.Chunk(copies(random, shuffle(random, input, 10), 2), size) {
			load = append(load, addressed{stream, list})
		}
	}
	slices.SortFunc(load, func(a, b addressed) int { return strings.Compare(string(a.list[0].body), string(b.list[0].body)) })
	concurrently(ctx, t, 8, load, func(ctx context.Context, a addressed) error {
		if size == 1 {
			return senders[a.stream].send(ctx, a.list[0])
		}
		return senders[a.stream].sendBatch(ctx, a.list)
	})
	return inputs
}

// sendOneByOne sends n messages to a stream, each when the one before it was acknowledged, and
// returns them.
func sendOneByOne(ctx context.Context, t *testing.T, s *server, stream string, n int) []sent {
	t.Helper()
	input := generate(newRandom(t), n)
	concurrently(ctx, t, 1, input, newHTTPSender(t, s.url(), stream).send)
	return input
}

// sendDelayed sends delayed messages, each when the one before it is due, until the process is
// gone, and returns them.
func sendDelayed(ctx context.Context, t *testing.T, s *server, p *process) (list []sent) {
	t.Helper()
	const wait = 300 * time.Millisecond
	h := newHTTPSender(t, s.url(), "delayed")
	for _, m := range generate(newRandom(t), 60) {
		message := h.message(m)
		message.NotBefore = time.Now().Add(wait)
		receipt, err := h.client.Send(ctx, message)
		must(t, err)
		h.acknowledged(m, receipt)
		list = append(list, m)
		select {
		case <-p.gone:
			return list
		case <-time.After(wait): // real time: the process looks at its clock
		}
	}
	return list
}

func judgeCrash(t *testing.T, s *server, r *receiver, inputs map[string][]sent) {
	t.Helper()
	s.judgeStores(t)
	lines, err := readLines(s.path("out/ledger.jsonl"))
	must(t, err)
	for stream, input := range inputs {
		judgeLines(stream, input, lines).report(t)
	}
	posts, problems := r.seen()
	(&verdict{problems}).report(t)
	judgePosts(inputs["keyed"], posts).report(t)
	if d := cmp.Diff(bodiesByGroup(lines, "first"), bodiesByGroup(lines, "second")); d != "" {
		t.Errorf("what came out of the first stream and of the second one behind it differ:\n%s", d)
	}
}

// bodiesByGroup returns the bodies of a stream in the order of their lines.
func bodiesByGroup(lines []line, stream string) map[string][]string {
	out := map[string][]string{}
	for _, l := range lines {
		if l.Stream == stream {
			out[l.Group] = append(out[l.Group], string(l.Body)+l.BodyBase64)
		}
	}
	return out
}

package e2e

import (
	"context"
	"testing"
	"time"
)

// settleTime is the longest time for a server to process its backlog.
const settleTime = 5 * time.Minute

// webhooksTo returns the configuration of a system that forwards to a file and to a receiver.
func webhooksTo(url string) string {
	return `
streams:
  github:
    admission: key
    destinations: [ledger, receiver]
destinations:
  ledger:   {file: out/ledger.jsonl}
  receiver: {webhook: "` + url + `", secret: "env:E2E_WEBHOOK_SECRET"}
`
}

func TestRealDeliveriesByHTTPHaveOneEffectEachWhileTheServerIsKilled(t *testing.T) {
	random := newRandom(t)
	input := deliveries(t)
	r := newReceiver(t, 0.1)
	s := newServer(t, onceBinary, webhooksTo(r.url))
	s.env = []string{r.env()}
	must(t, s.start())
	h := newHTTPSender(t, s.url(), "github")
	load := copies(random, input, 3)
	ctx, k := newKiller(t, s, random, *kills, len(load))
	concurrently(ctx, t, 16, load, func(ctx context.Context, m sent) error {
		defer k.acknowledged()
		return h.send(ctx, m)
	})
	k.finish(t)
	s.settle(t, settleTime)
	h.judge(t)
	judgeAll(t, s, r, "github", "out/ledger.jsonl", input)

	// Much later, in the same process and in the next, all of them are still known.
	must(t, s.start())
	concurrently(t.Context(), t, 16, input, h.send)
	s.settle(t, settleTime)
	h.judge(t)
	judgeAll(t, s, r, "github", "out/ledger.jsonl", input)
}

// judgeAll judges output, receiver and stores. It stops the server.
func judgeAll(t *testing.T, s *server, r *receiver, stream, file string, input []sent) {
	t.Helper()
	s.judgeStores(t)
	lines, err := readLines(s.path(file))
	must(t, err)
	judgeLines(stream, input, lines).report(t)
	posts, problems := r.seen()
	(&verdict{problems}).report(t)
	judgePosts(input, posts).report(t)
	t.Logf("%d messages, %d lines, %d posts", len(input), len(lines), len(posts))
}

package e2e

import (
	"context"
	"math/rand/v2"
	"testing"
)

// generateLarge makes messages of up to 1 MiB, half of them in a few groups, and half of them of
// bytes that are base64 in the queues.
func generateLarge(random *rand.Rand, n int) []sent {
	list := generate(random, n)
	for i := range list {
		m := &list[i]
		size := 1 << 20
		if i%3 > 0 {
			size = 200<<10 + random.IntN(800<<10)
		}
		m.contentType, m.body = "text/plain", make([]byte, size)
		for j := range m.body {
			m.body[j] = 'a' + byte(random.IntN(26))
		}
		if i%2 == 0 {
			m.contentType, m.body[0] = "application/octet-stream", 0xff
		}
	}
	return list
}

func TestLargeBodiesHaveOneEffectEachWhileTheServerIsKilled(t *testing.T) {
	random := newRandom(t)
	input := generateLarge(random, 60)
	r := newReceiver(t, 0.1)
	s := newServer(t, onceBinary, webhooksTo(r.url))
	s.env = []string{r.env()}
	must(t, s.start())
	h := newHTTPSender(t, s.url(), "github")
	load := copies(random, input, 2)
	ctx, k := newKiller(t, s, random, min(*kills, 10), len(load))
	concurrently(ctx, t, 8, load, func(ctx context.Context, m sent) error {
		defer k.acknowledged()
		return h.send(ctx, m)
	})
	k.finish(t)
	s.settle(t, settleTime)
	h.judge(t)
	judgeAll(t, s, r, "github", "out/ledger.jsonl", input)
}

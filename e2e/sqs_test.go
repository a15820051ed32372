package e2e

import (
	"context"
	"math/rand/v2"
	"testing"
)

func TestRealDeliveriesBySQSHaveOneEffectEachWhileTheServerIsKilled(t *testing.T) {
	random := newRandom(t)
	input := deliveries(t)
	r := newReceiver(t, 0.1)
	s := newServer(t, onceBinary, webhooksTo(r.url))
	s.env = []string{r.env()}
	must(t, s.start())
	q := newSQSSender(t, s, "github")
	load := batches(random, copies(random, input, 3))
	ctx, k := newKiller(t, s, random, *kills, len(load))
	concurrently(ctx, t, 16, load, func(ctx context.Context, batch []sent) error {
		defer k.acknowledged()
		return q.sendBatch(ctx, batch)
	})
	k.finish(t)
	s.settle(t, settleTime)
	judgeAll(t, s, r, "github", "out/ledger.jsonl", input)

	// HTTP and SQS share their tokens: a message sent by SQS is known when it is sent by HTTP.
	must(t, s.start())
	h := newHTTPSender(t, s.url(), "github")
	concurrently(t.Context(), t, 16, input, h.send)
	s.settle(t, settleTime)
	if len(h.fresh) > 0 {
		t.Errorf("%d messages that had come by SQS were called new by HTTP", len(h.fresh))
	}
	judgeAll(t, s, r, "github", "out/ledger.jsonl", input)
}

func TestGeneratedMessagesBySQSHaveOneEffectEachWhileTheServerIsKilled(t *testing.T) {
	const sources = 50
	n := max(*messages/10, 2000)
	for _, c := range []struct {
		name, stream string
		load         func(random *rand.Rand) (input, load []sent)
	}{
		{"by key", "admission: key", func(random *rand.Rand) (input, load []sent) {
			input = textual(generate(random, n))
			return input, copies(random, input, 2)
		}},
		{"by sequence, shuffled", "admission: sequence", func(random *rand.Rand) (input, load []sent) {
			input = textual(number(random, n, sources))
			return input, copies(random, shuffle(random, input, 300*sources), 2)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			random := newRandom(t)
			input, load := c.load(random)
			r := newReceiver(t, 0.003)
			s := newServer(t, onceBinary, generatedTo(r.url, c.stream))
			s.env = []string{r.env()}
			must(t, s.start())
			q := newSQSSender(t, s, "x")
			cut := batches(random, load)
			ctx, k := newKiller(t, s, random, *kills, len(cut))
			concurrently(ctx, t, 32, cut, func(ctx context.Context, batch []sent) error {
				defer k.acknowledged()
				return q.sendBatch(ctx, batch)
			})
			k.finish(t)
			s.settle(t, settleTime)
			judgeAll(t, s, r, "x", "out/x.jsonl", input)
		})
	}
}

func TestIssuedMessagesSentAgainBySQSHaveOneEffectEachWhileTheServerIsKilled(t *testing.T) {
	random := newRandom(t)
	input := textual(generate(random, max(*messages/10, 2000)))
	r := newReceiver(t, 0.003)
	s := newServer(t, onceBinary, generatedTo(r.url, "admission: token"))
	s.env = []string{r.env()}
	must(t, s.start())
	h, q := newHTTPSender(t, s.url(), "x"), newSQSSender(t, s, "x")
	ctx, k := newKiller(t, s, random, *kills, len(input))
	concurrently(ctx, t, 32, input, func(ctx context.Context, m sent) error {
		defer k.acknowledged()
		if err := h.send(ctx, m); err != nil { // issues the token
			return err
		}
		return q.sendBatch(ctx, []sent{m})
	})
	k.finish(t)
	s.settle(t, settleTime)
	h.judge(t)
	judgeAll(t, s, r, "x", "out/x.jsonl", input)
}

package e2e

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// generatedTo returns the configuration of a system with a stream of one admission.
func generatedTo(url, stream string) string {
	return `
streams:
  x: {` + stream + `, destinations: [ledger, receiver]}
destinations:
  ledger:   {file: out/x.jsonl}
  receiver: {webhook: "` + url + `", secret: "env:E2E_WEBHOOK_SECRET"}
`
}

// twice returns random messages, and each of them two times.
func twice(random *rand.Rand) (input, load []sent) {
	input = generate(random, *messages)
	return input, copies(random, input, 2)
}

func TestGeneratedMessagesHaveOneEffectEachWhileTheServerIsKilled(t *testing.T) {
	const sources = 50
	for _, c := range []struct {
		name   string
		stream string
		load   func(random *rand.Rand) (input, load []sent)
	}{
		{"by key, batches without the queue", "admission: key, direct: true", twice},
		{"by key, unordered, batches without the queue", "admission: key, order: none, direct: true", twice},
		{"by sequence, batches without the queue", "admission: sequence, direct: true", func(random *rand.Rand) (input, load []sent) {
			input = number(random, *messages, sources)
			return input, copies(random, shuffle(random, input, 3*sources), 2)
		}},
		{"by key", "admission: key", twice},
		{"by key, unordered", "admission: key, order: none", twice},
		{"by key, without the queue", "admission: key, direct: true", twice},
		{"by key, unordered, without the queue", "admission: key, order: none, direct: true", twice},
		{"by sequence, without the queue", "admission: sequence, direct: true", func(random *rand.Rand) (input, load []sent) {
			input = number(random, *messages, sources)
			return input, copies(random, shuffle(random, input, 3*sources), 2)
		}},
		{"by token, without the queue", "admission: token, direct: true", twice},
		{"by token", "admission: token", twice},
		{"by sequence, shuffled within the default bounds", "admission: sequence", func(random *rand.Rand) (input, load []sent) {
			input = number(random, *messages, sources)
			return input, copies(random, shuffle(random, input, 300*sources), 2)
		}},
		{"by sequence, shuffled from end to end", "admission: sequence, held: {count: 1000000, bytes: 1GB, distance: 1000000}", func(random *rand.Rand) (input, load []sent) {
			input = number(random, *messages, sources)
			return input, copies(random, shuffle(random, input, len(input)), 2)
		}},
		{"by sequence, beyond small bounds", "admission: sequence, held: {count: 10, distance: 40}", func(random *rand.Rand) (input, load []sent) {
			input = number(random, min(*messages, 5000), sources)
			return input, copies(random, shuffle(random, input, 60*sources), 2)
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
			h := newHTTPSender(t, s.url(), "x")
			ctx, k := newKiller(t, s, random, *kills, len(load))
			size := 1
			if strings.Contains(c.name, "batches") {
				size = 20
			}
			concurrently(ctx, t, 32, slices.Collect(slices.Chunk(load, size)), func(ctx context.Context, list []sent) error {
				defer func() {
					for range list {
						k.acknowledged()
					}
				}()
				if size == 1 {
					return h.send(ctx, list[0])
				}
				return h.sendBatch(ctx, list)
			})
			k.finish(t)
			s.settle(t, settleTime)
			// for numbered messages, duplicates are detected later
			if !strings.Contains(c.stream, "sequence") {
				h.judge(t)
			}
			judgeAll(t, s, r, "x", "out/x.jsonl", input)
		})
	}
}

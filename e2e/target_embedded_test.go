package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// startEmbedded starts the embedded system. Its destination that is a queue is replaced by a file,
// as its log says.
func startEmbedded(t *testing.T) *target {
	t.Helper()
	r := newReceiver(t, 0)
	s := newServer(t, onceBinary, contractTo(t, r.url, contractQueue))
	s.env = []string{r.env()}
	must(t, s.start())
	client := newSQSClient(t, s.url())
	return &target{
		url: s.url(), receiver: r, sqs: client,
		urls:    map[string]*string{"ingress": queueURL(t, client, "ingress"), "ingress.fifo": queueURL(t, client, "ingress.fifo")},
		letters: func(...string) ([]letter, error) { return s.deadLetters() },
		redrive: func(reason string) (int, error) { return redriven(s.once("redrive", "--reason", reason, "--json")) },
		forwarded: func() (out []forwarded, err error) {
			lines, err := readLines(s.path(".once/destinations/queue.jsonl"))
			for _, l := range lines {
				body, err := l.content()
				if err != nil {
					return nil, err
				}
				out = append(out, forwarded{fmt.Sprintf("%s/%s/%d", l.Stream, l.Group, l.Number), string(body)})
			}
			return out, err
		},
		leftovers: func() ([]string, error) {
			st, err := s.stats()
			if st.Idle {
				return nil, err
			}
			return strings.Fields(fmt.Sprintf("%+v", st)), err
		},
	}
}

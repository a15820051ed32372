package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
)

// A target is a running system of contract.yaml. The contract is the behaviour that all of them
// share.
type target struct {
	url      string
	receiver *receiver
	sqs      *sqs.Client
	urls     map[string]*string // of the queues ingress and ingress.fifo

	// letters returns the current dead letters, and deletes those with the ids if they are in a
	// queue of SQS. Redrive puts those of a reason back and returns their number.
	letters func(unwanted ...string) ([]letter, error)
	redrive func(reason string) (int, error)
	// believing is true if the senders of the checks are trusted like the system itself: emulators
	// name the same sender for all.
	believing bool
	// forwarded returns the messages that arrived at the destination that is a queue.
	forwarded func() ([]forwarded, error)
	// services send to the sources of contract.yaml; nil if there are none on this target.
	services *services
	// sweep runs the task that the system otherwise runs at intervals; nil if it does so every
	// second.
	sweep func() error
	// leftovers returns descriptions of the work in flight; none when all is done.
	leftovers func() ([]string, error)
}

// forwarded is a message at the destination that is a queue.
type forwarded struct{ identity, body string }

const (
	contractFile    = "contract.yaml"
	contractAddress = "127.0.0.1:9917"
	contractQueue   = "once-e2e.fifo"
)

// patience is the time limit for a message, through functions that have never run, on a busy
// machine.
const patience = 90 * time.Second

// contractTo returns the configuration of the contract with another receiver, and another queue.
func contractTo(t *testing.T, url, queue string) string {
	t.Helper()
	text, err := os.ReadFile(contractFile)
	must(t, err)
	return strings.NewReplacer("http://"+contractAddress+"/", url, contractQueue, queue).Replace(string(text))
}

// await calls ask until it returns true.
func await(t *testing.T, what string, ask func() (bool, error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := poll(ctx, 50*time.Millisecond, ask); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// A sandbox is the use of a target by one check: its names are its own, so that others may run
// concurrently, and again on the same system.
type sandbox struct {
	*target
	prefix string
	sweeps bool // the effect that the check waits for is caused by a sweep
}

func (x *target) sandbox() *sandbox {
	return &sandbox{target: x, prefix: "t" + uuid.NewString()[:8] + "-"}
}

// name returns a name that only this check uses.
func (x *sandbox) name(s string) string { return x.prefix + s }

// sender returns a sender to the two queues that every target has.
func (x *sandbox) sender(stream string) *sqsSender {
	return &sqsSender{client: x.sqs, stream: stream, urls: x.urls}
}

// effects returns the requests to the receiver for this check's messages in a stream.
func (x *sandbox) effects(stream string) []post {
	posts, _ := x.receiver.seen()
	return slices.DeleteFunc(posts, func(p post) bool { return p.stream != stream || !strings.HasPrefix(p.id, x.prefix) })
}

// want waits until the receiver has got a request for every message, and judges them.
func (x *sandbox) want(t *testing.T, stream string, messages ...sent) []post {
	t.Helper()
	ids := func(posts []post) map[string]bool {
		set := map[string]bool{}
		for _, p := range posts {
			set[p.id] = true
		}
		return set
	}
	await(t, fmt.Sprintf("effects of %d messages", len(messages)), func() (bool, error) { return len(ids(x.effects(stream))) >= len(messages), nil })
	posts := x.effects(stream)
	judgePosts(messages, posts).report(t)
	return posts
}

// firsts returns the bodies of posts without copies.
func firsts(posts []post) (bodies []string) {
	seen := map[string]bool{}
	for _, p := range posts {
		if !seen[p.webhookID] {
			bodies = append(bodies, string(p.body))
		}
		seen[p.webhookID] = true
	}
	return bodies
}

// wantLetters waits until the dead letters of this check are these, as "reason stream id".
func (x *sandbox) wantLetters(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	var err error
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	waited := poll(ctx, 100*time.Millisecond, func() (bool, error) {
		if x.sweeps && x.sweep != nil {
			if err := x.sweep(); err != nil {
				return false, err
			}
		}
		var letters []letter
		letters, err = x.letters()
		got = nil
		for _, l := range letters {
			if strings.HasPrefix(l.ID, x.prefix) || strings.HasPrefix(l.Source, x.prefix) {
				got = append(got, l.String())
			}
		}
		slices.Sort(got)
		got = slices.Compact(got) // a sender that died after it had sent a letter sends it again
		return cmp.Equal(want, got), err
	})
	if waited != nil {
		t.Fatalf("%v: dead letters:\n%s", waited, cmp.Diff(want, got))
	}
}

// putBack redrives dead letters of a reason; there must be some. It repeats that: a redrive of
// another check hides all letters while it looks for its own.
func (x *sandbox) putBack(t *testing.T, reason string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := poll(ctx, 100*time.Millisecond, func() (bool, error) {
		n, err := x.redrive(reason)
		return n > 0, err
	})
	if err != nil {
		t.Fatalf("no dead letter was put back for %s: %v", reason, err)
	}
}

// An answer is the response to one request.
type answer struct {
	status int
	header http.Header
	body   string
}

func (x *target) ask(ctx context.Context, method, path, body string, header ...string) (answer, error) {
	request, err := http.NewRequestWithContext(ctx, method, x.url+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	response, err := connections.Do(request)
	if err != nil {
		return answer{}, err
	}
	content, err := io.ReadAll(response.Body)
	return answer{response.StatusCode, response.Header, string(content)}, errors.Join(err, response.Body.Close())
}

// must is ask without an expected error.
func (x *target) must(t *testing.T, method, path, body string, header ...string) answer {
	t.Helper()
	a, err := x.ask(t.Context(), method, path, body, header...)
	must(t, err)
	return a
}

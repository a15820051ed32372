package filecursor

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/effectively-once/once/client"
)

// A countingTransport refuses every request.
type countingTransport struct {
	requests int
	cancel   context.CancelFunc
}

func (c *countingTransport) RoundTrip(*http.Request) (*http.Response, error) {
	c.requests++
	c.cancel()
	return nil, errors.New("no server")
}

func TestTheFileOfAnotherSessionIsFoundBeforeTheOpen(t *testing.T) {
	for content, opens := range map[string]bool{"": true, "\two": true, first: true, "\twork/b/7/0\n": false, "\twork/g/a/7/0\n": false, "my thesis\n": false} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "out")
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			transport := &countingTransport{cancel: cancel}
			c, err := client.New("http://once.test", client.Options{HTTP: &http.Client{Transport: transport}})
			if err != nil {
				t.Fatal(err)
			}
			err = Consume(ctx, c, client.SessionOptions{Stream: "work", Name: "a"}, path, Options{}, nil)
			cancel()
			damaged, isDamaged := errors.AsType[*DamagedError](err)
			kept, readErr := os.ReadFile(path)
			if isDamaged == opens || (transport.requests > 0) != opens || readErr != nil || string(kept) != content {
				t.Errorf("%q: %+v, %v after %d requests; the file has %q, %v", content, damaged, err, transport.requests, kept, readErr)
			}
		})
	}
}

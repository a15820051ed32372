package main

import (
	"bytes"
	"regexp"
	"sync"
	"testing"
	"time"
)

// output collects the output of a program, and wakes the goroutine that waits for a text in it.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.more)
	o.more = make(chan struct{})
	return o.text.Write(b)
}

// await returns the first match in the output.
func (o *output) await(t *testing.T, pattern string) []string {
	t.Helper()
	end := time.After(time.Minute)
	for {
		o.mu.Lock()
		text, more := o.text.String(), o.more
		o.mu.Unlock()
		if found := regexp.MustCompile(pattern).FindStringSubmatch(text); found != nil {
			return found
		}
		select {
		case <-more:
		case <-end:
			t.Fatalf("no %s in %q", pattern, text)
		}
	}
}

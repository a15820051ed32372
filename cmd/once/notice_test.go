package main

import (
	"strings"
	"testing"
	"time"

	"github.com/effectively-once/once/client"
)

func TestAConsumerIsReplacedOnlyByAnotherHolder(t *testing.T) {
	for _, c := range []struct{ holder, want string }{
		{"other", "replaced by \"other\"; waiting until the session is free\n"},
		{"own", "opening the session again: It was never opened under this fence.\n"}, // by a server that was restored
		{"", "opening the session again: It was never opened under this fence.\n"},
	} {
		var out strings.Builder
		n := &notice{app: &app{err: &out}, text: "trying again in", self: "own"}
		n.retry(&client.Problem{Type: client.Fenced, Status: 409, Holder: c.holder, Detail: "It was never opened under this fence."}, time.Second)
		if out.String() != c.want {
			t.Errorf("holder %q: %q", c.holder, out.String())
		}
	}
}

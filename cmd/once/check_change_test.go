package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCheckSaysWhatAChangeWouldDoToWhatWaits changes the admission of orders.
func TestCheckSaysWhatAChangeWouldDoToWhatWaits(t *testing.T) {
	aws, same := deployedStack(t)
	file := func(text string) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), "new.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	token := file("streams: {orders: {admission: token}, chat: {admission: sequence}}\n")
	w := newWorld(t)
	check := func(want int, config string, args ...string) string {
		t.Helper()
		if code := w.once(t.Context(), "", append([]string{"check", "--stack", "Once", "--config", config}, args...)...); code != want {
			t.Errorf("exit %d, want %d\n%s%s", code, want, w.out.String(), w.err.String())
		}
		return w.out.String() + w.err.String()
	}
	if out := check(exitOK, same); !strings.Contains(out, "is what is deployed as Once") {
		t.Errorf("the deployed file: %q", out)
	}
	if out := check(exitOK, file(deployedConfig+"# a comment\n")); !strings.Contains(out, "is what is deployed as Once") {
		t.Errorf("a comment: %q", out)
	}
	if out := check(exitOK, file("streams: {orders: {}, chat: {admission: sequence}, more: {}}\n")); !strings.Contains(out, "has no change of Once that needs care") {
		t.Errorf("a new stream: %q", out)
	}
	if out := check(exitOK, token); !strings.Contains(out, "ok now: stream orders: admission key -> token:") {
		t.Errorf("nothing waits: %q", out)
	}
	if code := w.once(t.Context(), "", "send", "orders", "1", "--key", "o-1", "--queue", "fifo", "--stack", "Once"); code != exitOK {
		t.Fatal(w.err.String())
	}
	if out := check(exitFailed, token); !strings.Contains(out, "RISK: stream orders: admission key -> token (1 queued in all streams):") || !strings.Contains(out, "To do: stop its senders") {
		t.Errorf("a message waits: %q", out)
	}
	var got checkedChange
	check(exitFailed, token, "--json")
	if err := json.Unmarshal(w.out.Bytes(), &got); err != nil || got.Same || got.Waiting == nil || got.Waiting.Queued != 1 || len(got.Changes) != 1 || !got.Changes[0].Risk {
		t.Errorf("JSON: %+v, %v", got, err)
	}
	source := file(deployedConfig + "ingress: {files: {from: s3, stream: orders}}\n")
	if out := check(exitOK, source); !strings.Contains(out, "note: source files: the stack has no queue for it") {
		t.Errorf("a source without a queue: %q", out)
	}
	got = checkedChange{}
	check(exitOK, source, "--json")
	if err := json.Unmarshal(w.out.Bytes(), &got); err != nil || !slices.Equal(got.NoQueue, []string{"files"}) {
		t.Errorf("JSON: %+v, %v", got, err)
	}
	groups := aws.Outputs["GroupsTable"]
	aws.Outputs["GroupsTable"] = "gone"
	if out := check(exitIncomplete, token); !strings.Contains(out, "unknown: stream orders") || !strings.Contains(out, "count what waits") {
		t.Errorf("the table can't be read: %q", out)
	}
	aws.Outputs["GroupsTable"] = groups
	aws.Denied = []string{"GetFunction"}
	if out := check(exitRefused, token); !strings.Contains(out, "lambda:GetFunction") {
		t.Errorf("without the permission: %q", out)
	}
	check(exitUsage, file("streams: {}\n"))
}

package shop

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// consoleShowsItsPipelineOnly serves the console of a pipeline and reads its pages.
func consoleShowsItsPipelineOnly(t *testing.T, orders *pipeline) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	address := listener.Addr().String()
	must(t, listener.Close())
	cmd := exec.CommandContext(t.Context(), orders.binary, "console", "--stack", orders.stack, "--listen", address, "--url", orders.url())
	cmd.Dir = t.TempDir()
	var notes bytes.Buffer
	cmd.Stderr = &notes
	must(t, cmd.Start())
	get := func(path string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/console"+path, nil)
		must(t, err)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp.StatusCode, string(body)
	}
	eventually(t, "the console of "+orders.stack, func() bool { status, _ := get("/find"); return status == http.StatusOK })
	for _, page := range []struct{ path, want string }{
		{"", orders.stack + " in "},
		{"", "once show --stack " + orders.stack},
		{"/streams", ">orders<"},
		{"/groups?stream=orders", "List its groups"},
		{"/groups?stream=orders&list=1", "group=g&amp;stream=orders"},
		{"/group?stream=orders&group=g", "It waits for nothing."},
		{"/message?stream=orders&id=o-1", "<dd>done</dd>"},
		{"/totals", ">orders<"},
		{"/letters", "Dead letters"},
	} {
		if status, body := get(page.path); status != http.StatusOK || !strings.Contains(body, page.want) {
			t.Errorf("%q: %d, want %q in:\n%s", page.path, status, page.want, body)
		}
	}
	for _, path := range []string{"/groups?stream=bills", "/message?stream=bills&id=till/0/1"} {
		if status, body := get(path); status != http.StatusNotFound {
			t.Errorf("%s, of the other pipeline: %d, want 404:\n%s", path, status, body)
		}
	}
	must(t, cmd.Process.Signal(os.Interrupt))
	if err := cmd.Wait(); err != nil || !strings.Contains(notes.String(), fmt.Sprintf("the console of %s is at http://%s/console", orders.stack, address)) {
		t.Errorf("after the interrupt: %v\n%s", err, notes.String())
	}
}

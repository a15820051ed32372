package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/effectively-once/once/internal/admin"
	"github.com/effectively-once/once/internal/testkit/eventually"
)

const operatorKey = "0123456789abcdef0123456789abcdef"

// operated is a world with a server on another machine.
func operated(t *testing.T) (w *world, url string) {
	t.Helper()
	w = newWorld(t)
	w.folder = nil // a command that opens a folder panics
	t.Chdir(t.TempDir())
	known := func(key string) bool { return key == operatorKey }
	server := httptest.NewServer(admin.Guard(known, admin.Remote(newCannedFolder())))
	t.Cleanup(server.Close)
	w.env = map[string]string{adminKeyVariable: operatorKey}
	return w, server.URL
}

func TestCommandsOfOperatorsAskAServerOnAnotherMachine(t *testing.T) {
	for command, want := range map[string]string{
		"show":                            "2 dead letters",
		"show chat/room/1":                "field x missing",
		"show orders --id o-1":            `two\nlines\x1b[2J`,
		"show --dead-letters":             "410 Gone",
		"show --dead-letters --id p-1":    `line \x1b[2J`,
		"sweep":                           "looked at 3 groups",
		"redrive --max 2":                 "put back 2 dead letters",
		"drop --id p-1 --yes":             `no\r\nstock\u202e`,
		"skip chat/room/1 12 --yes":       "effect 12 is a dead letter for shop",
		"show --hash 00c0ffee0001 --json": `"hash": "00c0ffee0001"`,
	} {
		for _, named := range []bool{true, false} {
			w, url := operated(t)
			args, name := words(command), adminURLVariable
			if named {
				args, name = append(args, "--url", url), "--url"
			} else {
				w.env[adminURLVariable] = url
			}
			code := w.once(t.Context(), "", args...)
			if code != exitOK || !strings.Contains(w.out.String(), want) {
				t.Errorf("%s by %s: exit %d, want 0 and %q:\n%s%s", command, name, code, want, w.out.String(), w.err.String())
			}
			if all := w.out.String() + w.err.String(); strings.ContainsAny(all, "\x1b\r\u202e") {
				t.Errorf("%s: what the server sent changes the terminal: %q", command, all)
			}
		}
	}
}

func TestWhatKeepsAnOperatorOutIsSaid(t *testing.T) {
	w, url := operated(t)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("a-key-of-another-server\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	several := filepath.Join(t.TempDir(), "several")
	if err := os.WriteFile(several, []byte("# since March\n"+operatorKey+"\nthe-key-before-this-one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	for name, c := range map[string]struct {
		args string
		key  string
		code int
		want string
	}{
		"no key":              {"show --url " + url, "", exitUsage, "set ONCE_ADMIN_KEY, or name a file that has it with --admin-key-file"},
		"a wrong key":         {"show --url " + url + " --admin-key-file " + key, operatorKey, exitRefused, "does not know this key"},
		"nothing: two keys":   {"show --url " + url + " --admin-key-file " + several, "", exitOK, ""},
		"the public address":  {"sweep --url " + w.url, operatorKey, exitUsage, "is not the address of an admin API"},
		"no server":           {"sweep --url " + closed.URL, operatorKey, exitAway, "no admin API answers at"},
		"a missing file":      {"show --url " + url + " --admin-key-file nowhere", operatorKey, exitUsage, "read key: open nowhere"},
		"no certificates":     {"show --url " + url + " --ca-file " + key, operatorKey, exitUsage, "has no certificate in PEM"},
		"two systems":         {"show --url " + url + " --data .once", operatorKey, exitUsage, "--url and --data exclude each other"},
		"a stack as well":     {"show --url " + url + " --stack Once", operatorKey, exitUsage, "--url and --stack exclude each other"},
		"an unknown group":    {"show chat/nobody --url " + url, operatorKey, exitUnknown, "not found"},
		"a folder over there": {"backup monday --url " + url, operatorKey, exitUsage, "must be an absolute path: the folder is on the server"},
		"a key in the open":   {"tail chat --url http://once.example:9444", operatorKey, exitUsage, "without encryption: use https://"},
	} {
		t.Run(name, func(t *testing.T) {
			w.env[adminKeyVariable] = c.key
			code := w.once(t.Context(), "", words(c.args)...)
			if code != c.code || !strings.Contains(w.err.String(), c.want) || strings.Contains(w.err.String(), operatorKey) {
				t.Errorf("exit %d, want %d and %q: %s", code, c.code, c.want, w.err.String())
			}
		})
	}
}

func TestTheKeyOfOperatorsGoesToTheirAddressOnly(t *testing.T) {
	w := newWorld(t)
	var given atomic.Value
	public := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		given.Store(r.Header.Get("Authorization"))
		_, _ = io.WriteString(rw, `{"sessions":[]}`)
	}))
	defer public.Close()
	w.url = public.URL
	for name, c := range map[string]struct {
		args  []string
		admin string
		want  string
	}{
		"the public address":        {[]string{"sessions", "work"}, "", ""},
		"the address of operators":  {[]string{"sessions", "work"}, public.URL, "Bearer " + operatorKey},
		"an address that was named": {[]string{"sessions", "work", "--url", public.URL}, "", "Bearer " + operatorKey},
		"a message":                 {[]string{"send", "orders", "1", "--key", "k", "--retry-for", "0s", "--url", public.URL}, public.URL, ""},
	} {
		w.env = map[string]string{adminKeyVariable: operatorKey, adminURLVariable: c.admin}
		given.Store("")
		_ = w.once(t.Context(), "", c.args...)
		if got := given.Load(); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// served runs once serve in a process of its own, with a certificate, until the test ends. It
// returns its working folder, and the addresses for senders and for operators.
func served(t *testing.T, config string, env ...string) (dir, senders, operators string) {
	t.Helper()
	dir = t.TempDir()
	server := httptest.NewTLSServer(nil)
	server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{
		"tls.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), "tls.key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), "once.yaml": []byte(config),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := command(ctx, "serve", "--listen", "127.0.0.1:0")
	cmd.Dir, cmd.Env = dir, append(cmd.Env, env...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_, _ = io.Copy(io.Discard, log)
		_ = cmd.Wait() // it was interrupted
	})
	var text bytes.Buffer
	found, lines := regexp.MustCompile(`msg="?(ready for operators|ready)"? url=(\S+)`), bufio.NewScanner(log)
	for (senders == "" || operators == "") && lines.Scan() {
		text.WriteString(lines.Text() + "\n")
		switch m := found.FindStringSubmatch(lines.Text()); {
		case m == nil:
		case m[1] == "ready":
			senders = m[2]
		default:
			operators = m[2]
		}
	}
	if senders == "" || operators == "" {
		t.Fatalf("the server is not ready:\n%s", text.String())
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	return dir, senders, operators
}

// awaitText waits until a text contains another one.
func awaitText(t *testing.T, want string, get func() string) {
	t.Helper()
	eventually.Succeeds(t, func() error {
		if got := get(); !strings.Contains(got, want) {
			return fmt.Errorf("there is no %q in:\n%s", want, got)
		}
		return nil
	})
}

// TestAnOperatorWorksFromAnotherMachine runs the real server with a certificate, and the commands
// in another folder.
func TestAnOperatorWorksFromAnotherMachine(t *testing.T) {
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) }))
	defer gone.Close()
	dir, senders, operators := served(t, fmt.Sprintf(`
streams:
  orders: {destinations: [shop], log: {}}
  work: {pool: {}}
destinations: {shop: {webhook: %q}}
server:
  tls: {cert: tls.crt, key: tls.key}
  auth: {keys: env:KEYS}
  admin: {listen: "127.0.0.1:0", key: env:OPERATORS}
`, gone.URL), "KEYS=shop "+strings.Repeat("s", 32), "OPERATORS="+operatorKey)
	ca := filepath.Join(dir, "tls.crt")
	run := func(env []string, args ...string) (int, string) {
		cmd := command(t.Context(), append(args, "--ca-file", ca)...)
		cmd.Dir, cmd.Env = t.TempDir(), append(cmd.Env, env...)
		out, _ := cmd.CombinedOutput() // the exit code says the rest
		return cmd.ProcessState.ExitCode(), string(out)
	}
	authorities, err := authorities(ca)
	if err != nil {
		t.Fatal(err)
	}
	sender := &http.Client{Transport: admin.Transport(authorities)}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, senders+"/v1/streams/orders/messages", strings.NewReader(`{"item":7}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = http.Header{"Authorization": {"Bearer " + strings.Repeat("s", 32)}, "Idempotency-Key": {`"o-1"`}, "Once-Group": {"lamp"}, "Content-Type": {"application/json"}}
	resp, err := sender.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("the sender got %s, want 202", resp.Status)
	}
	operator := []string{"ONCE_ADMIN_URL=" + operators, "ONCE_ADMIN_KEY=" + operatorKey}
	awaitText(t, "answered 410 Gone", func() string { _, out := run(operator, "show", "--dead-letters", "--id", "orders/lamp/1"); return out })
	for range 2 * 256 { // connections that never say anything keep no operator out
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(operators, "https://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	copied := filepath.Join(t.TempDir(), "copy")
	for _, c := range []struct {
		env  []string
		args string
		code int
		want string
	}{
		{operator, "show", exitOK, "1 dead letter"},
		{operator, "redrive --json", exitOK, `"redriven": 1`},
		{operator, "sweep", exitOK, "0 failed"},
		{operator, "tail orders/lamp --no-follow", exitOK, `{"item":7}`},
		{operator, "sessions work", exitOK, "there are no sessions"},
		{operator, "end work --yes", exitOK, ""},
		{operator, "backup " + copied, exitOK, copied + " on " + operators},
		{operator[:1], "show", exitUsage, "needs the key of an operator"},
		{operator[1:], "show --url " + senders, exitUsage, "is the address of the public HTTP API: give the one of admin.listen"},
		{[]string{operator[0], "ONCE_ADMIN_KEY=" + strings.Repeat("s", 32)}, "show", exitRefused, "does not know this key"},
		{[]string{operator[0], "ONCE_ADMIN_KEY=" + strings.Repeat("s", 32)}, "sessions work", exitRefused, "send their key"},
	} {
		if code, out := run(c.env, words(c.args)...); code != c.code || !strings.Contains(out, c.want) {
			t.Errorf("once %s: exit %d, want %d and %q:\n%s", c.args, code, c.code, c.want, out)
		}
	}
	cmd := command(t.Context(), "show", "--url", operators)
	cmd.Env = append(cmd.Env, operator...)
	if out, err := cmd.CombinedOutput(); err == nil || cmd.ProcessState.ExitCode() != exitAway || !strings.Contains(string(out), "--ca-file") {
		t.Errorf("without the authority: exit %d, want %d and advice:\n%s", cmd.ProcessState.ExitCode(), exitAway, out)
	}
	if _, err := os.Stat(filepath.Join(copied, "data")); err != nil {
		t.Errorf("the server has made no backup: %v", err)
	}
}

func TestSendingToAServerWithAnUnknownCertificate(t *testing.T) {
	w := newWorld(t)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "application/json")
		rw.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(rw, `{"id":"k","stream":"orders","group":"k","status":"accepted"}`)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	for _, command := range []string{"send orders x --key k", "consume orders --session s --file lines", "tail orders/k"} {
		code := w.once(t.Context(), "", append(words(command), "--url", server.URL)...)
		if code != exitAway || !strings.Contains(w.err.String(), "--ca-file") || strings.Contains(w.err.String(), "trying again") {
			t.Errorf("once %s: exit %d, want %d and advice without a retry:\n%s", command, code, exitAway, w.err.String())
		}
	}
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if code := w.once(t.Context(), "", "send", "orders", "x", "--key", "k", "--url", server.URL, "--ca-file", ca); code != exitOK {
		t.Errorf("with the authority: exit %d\n%s", code, w.err.String())
	}
	if code := w.once(t.Context(), "", "send", "orders", "x", "--stack", "Once", "--ca-file", ca); code != exitUsage {
		t.Errorf("with a stack: exit %d, want %d", code, exitUsage)
	}
}

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// serverFile writes a configuration with a server, and a list of keys, and returns its path.
func serverFile(t *testing.T, server string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"once.yaml": "streams: {orders: {log: {}}}\n" + strings.ReplaceAll(server, "DIR", dir),
		"keys":      "ann " + strings.Repeat("k", 32) + "\n", "admin": strings.Repeat("a", 32),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "once.yaml")
}

func TestServeTakesItsSettingsFromTheFileAndFlagsReplaceThem(t *testing.T) {
	const keys = `auth: {keys: "file:DIR/keys"}`
	const admin = `admin: {key: "file:DIR/admin"}`
	for _, c := range []struct {
		name, server, args     string
		listen, console, hosts string
	}{
		{"no block", "", "", "127.0.0.1:8080", "read", ""},
		{"an address", "server: {listen: 127.0.0.1:9, hosts: [a.example]}", "", "127.0.0.1:9", "read", "a.example"},
		{"an address by a flag", "server: {listen: 127.0.0.1:9, hosts: [a.example]}", "--listen 127.0.0.2:8 --allow-host b.example", "127.0.0.2:8", "read", "b.example,a.example"},
		{"another name of this machine", "", "--listen Localhost:9", "Localhost:9", "read", ""},
		{"an address that others reach", "server: {listen: :9}", "--insecure", ":9", "off", ""},
		{"keys, and none for operators", "server: {" + keys + "}", "", "127.0.0.1:8080", "off", ""},
		{"keys, and one for operators", "server: {" + keys + ", " + admin + "}", "", "127.0.0.1:8080", "read", ""},
		{"a console that others reach", "server: {listen: :9, " + keys + ", " + admin + ", console: write}", "", ":9", "write", ""},
		{"a console by a flag", "server: {" + keys + ", " + admin + ", console: write}", "--console off", "127.0.0.1:8080", "off", ""},
	} {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		w.server = &cannedServer{end: cancel}
		args := slices.Concat([]string{"serve", "--data", t.TempDir(), "--config", serverFile(t, c.server)}, strings.Fields(c.args))
		if code := w.once(ctx, "", args...); code != exitOK {
			t.Errorf("%s: exit %d, %s", c.name, code, w.err.String())
		}
		o := w.serverOptions
		hosts := strings.Join(slices.Concat(o.AllowHosts, o.Server.Hosts), ",")
		if o.Listen != c.listen || string(o.Console) != c.console || hosts != c.hosts {
			t.Errorf("%s: listens on %s, console %s, hosts %s; want %s, %s, %s", c.name, o.Listen, o.Console, hosts, c.listen, c.console, c.hosts)
		}
		if !strings.Contains(w.err.String(), "msg=ready url=http") {
			t.Errorf("%s: the log does not say that the server is ready:\n%s", c.name, w.err.String())
		}
		cancel()
	}
	for _, c := range [][2]string{
		{"--listen nowhere", `--listen "nowhere" must be HOST:PORT`},
		{"--listen 127.0.0.1:noport", `--listen "127.0.0.1:noport" must be HOST:PORT`},
		{"--console yes", `--console "yes" must be off, read or write`},
		{"--console read", "--console needs server.admin.key"},
		{"--max-waiting 0", "--max-waiting must be at least 1"},
	} {
		w := newWorld(t)
		args := slices.Concat([]string{"serve", "--data", t.TempDir(), "--config", serverFile(t, "server: {"+keys+"}")}, strings.Fields(c[0]))
		if code := w.once(t.Context(), "", args...); code != exitUsage || !strings.Contains(w.err.String(), c[1]) {
			t.Errorf("%s: exit %d, %s, want %q", c[0], code, w.err.String(), c[1])
		}
	}
}

func TestServeWarnsLoudlyIfOthersReachItWithoutKeysOrWithoutTLSOrReadAKey(t *testing.T) {
	const noKeys, noTLS, open = "callers are not authenticated", "the connection is not encrypted", "every user of this machine can read"
	for server, want := range map[string][]string{
		"":                              nil,
		"server: {listen: 127.0.0.1:9}": nil,
		"server: {listen: Localhost:9}": nil,
		"server: {listen: :9}":          {noKeys, noTLS},
		"server: {listen: 192.0.2.1:9}": {noKeys, noTLS},
		"server: {admin: {listen: \":9\", key: \"file:DIR/keys\"}}":                              {noTLS},
		"server: {admin: {listen: \"127.0.0.1:9\", key: \"file:DIR/keys\"}}":                     nil,
		"server: {tls: {cert: a, key: b}, admin: {listen: \":9\", key: \"file:DIR/keys\"}}":      nil,
		"server: {listen: :9, auth: {keys: \"file:DIR/keys\"}}":                                  {noTLS},
		"server: {admin: {key: \"file:DIR/admin\"}}":                                             {open},
		"server: {listen: :9, tls: {cert: a, key: b}}":                                           {noKeys},
		"server: {listen: :9, tls: {cert: a, key: b}, auth: {keys: \"file:DIR/keys\"}}":          nil,
		"server: {listen: localhost:9, tls: {cert: a, key: b}, auth: {keys: \"file:DIR/keys\"}}": nil,
	} {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		w.server = &cannedServer{end: cancel}
		file := serverFile(t, server)
		if err := os.Chmod(filepath.Join(filepath.Dir(file), "admin"), 0o604); err != nil {
			t.Fatal(err)
		}
		if code := w.once(ctx, "", "serve", "--insecure", "--data", t.TempDir(), "--config", file); code != exitOK {
			t.Errorf("%s: exit %d, %s", server, code, w.err.String())
		}
		for _, text := range []string{noKeys, noTLS, open} {
			printed := false
			for line := range strings.Lines(w.err.String()) {
				printed = printed || strings.HasPrefix(line, "WARNING: ") && strings.Contains(line, text)
			}
			if warns := slices.Contains(want, text); printed != warns {
				t.Errorf("%s: %q is printed: %t; want %t", server, text, printed, warns)
			}
		}
		cancel()
	}
}

func TestCheckPrintsWhoMayDoWhatAndWarnsOfKeysThatHadMoreRights(t *testing.T) {
	const list = "shop shop-0123456789abcdef\ntill till-0123456789abcdef orders\nold old-0123456789abcdef\n"
	t.Setenv("ONCE_TEST_KEYS", list)
	check := func(auth string, args ...string) (out, warnings string) {
		t.Helper()
		w := newWorld(t)
		file := filepath.Join(t.TempDir(), "once.yaml")
		text := "streams: {orders: {log: {}}, returns: {log: {}}}\nserver: {auth: {keys: \"env:ONCE_TEST_KEYS\", " + auth + "}}\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if code := w.once(t.Context(), "", append([]string{"check", "--config", file}, args...)...); code != exitOK {
			t.Fatalf("exit %d, %s", code, w.err.String())
		}
		return w.out.String(), w.err.String()
	}
	const before = "warning: server.auth.roles: is missing, so every key may only send"
	out, warnings := check("oidc: {issuer: \"https://id.example\", audience: once, streams: s}")
	for _, want := range []string{
		"\nCALLER  SEND    READ  CONSUME  OPERATE\nshop    all     -     -        -\ntill    orders  -     -        -\n",
		"\ntokens of https://id.example may send, for the streams of their claim s\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got %s, want %q", out, want)
		}
	}
	if !strings.Contains(warnings, before) || !strings.Contains(warnings, "server.auth.oidc.roles: is missing, so every token may only send") {
		t.Errorf("got %s, want %q", warnings, before)
	}
	out, warnings = check("oidc: {issuer: \"https://id.example\", audience: once, roles: scope}, roles: {shop: [send, \"read:orders\"], till: [\"operate:*\"], ghost: [\"read:ret*\"], old: [\"read:order\"]}")
	for _, want := range []string{
		"\nshop    all   orders  -        -\ntill    -     -       -        orders\nold     -     -       -        -\n",
		"\ntokens of https://id.example have the roles of their claim scope, for all streams\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("got %s, want %q", out, want)
		}
	}
	for text, want := range map[string]bool{before: false, "no line of server.auth.keys has the principal ghost": true, "read:order of old is for no stream": true, "read:ret*": false} {
		if strings.Contains(warnings, text) != want {
			t.Errorf("got %s, want %q in it: %t", warnings, text, want)
		}
	}
	out, _ = check("roles: {shop: [read]}", "--json")
	var got checked
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Callers) != 3 || !slices.Equal(got.Callers[0].Roles["read"], []string{"orders", "returns"}) || got.Callers[0].Roles["send"] != nil {
		t.Errorf("as JSON: got %+v, %v, want the callers with their roles", got.Callers, err)
	}
	t.Setenv("ONCE_TEST_KEYS", list+"broken\n")
	if _, warnings = check("roles: {}"); !strings.Contains(warnings, "warning: server.auth.keys: line 4: must be PRINCIPAL KEY") {
		t.Errorf("got %s, want a warning of the line", warnings)
	}
}

func TestCheckNamesWhatAServerLacksAndDevSaysThatItIgnoresTheBlock(t *testing.T) {
	file := serverFile(t, "server: {listen: :9, tls: {cert: DIR/tls.crt, key: DIR/tls.key}, auth: {keys: \"file:DIR/nowhere\"}, admin: {key: \"env:ONCE_TEST_NO_KEY\"}}")
	w := newWorld(t)
	if code := w.once(t.Context(), "", "check", "--config", file); code != exitOK {
		t.Errorf("check: exit %d, want 0: warnings are no mistakes", code)
	}
	for _, want := range []string{"warning: server.tls.cert: ", "warning: server.auth.keys: ", "warning: server.admin.key: resolve secret env:ONCE_TEST_NO_KEY: is missing or empty: once serve does not start without it"} {
		if !strings.Contains(w.err.String(), want) {
			t.Errorf("check printed %s, want %q", w.err.String(), want)
		}
	}
	open := serverFile(t, "server: {auth: {keys: \"file:DIR/keys\"}, tls: {cert: DIR/keys, key: DIR/keys}}")
	for mode, want := range map[os.FileMode]bool{0o600: false, 0o640: false, 0o644: true} {
		if err := os.Chmod(filepath.Join(filepath.Dir(open), "keys"), mode); err != nil {
			t.Fatal(err)
		}
		if code := w.once(t.Context(), "", "check", "--config", open); code != exitOK || strings.Contains(w.err.String(), "warning: server.auth.keys: every user of this machine can read") != want {
			t.Errorf("check of a list with the mode %v: exit %d, %s; want a warning: %t", mode, code, w.err.String(), want)
		}
		if !strings.Contains(w.err.String(), "warning: server.tls: ") {
			t.Errorf("check printed %s, want a warning about a certificate that is none", w.err.String())
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w.server = &cannedServer{end: cancel}
	if code := w.once(ctx, "", "dev", "--data", t.TempDir(), "--config", file); code != exitOK || w.serverOptions.Server != nil || w.serverOptions.Listen != defaultListen {
		t.Errorf("dev: exit %d, server %v, on %s; want 0, none and %s", code, w.serverOptions.Server, w.serverOptions.Listen, defaultListen)
	}
	if !strings.Contains(w.err.String(), "once dev ignores it, and authenticates nobody") {
		t.Errorf("dev printed %s, want a warning", w.err.String())
	}
}

func TestTheCommandLineSendsTheKeyOfTheCaller(t *testing.T) {
	w := newWorld(t)
	var got []string
	w.front.before = func(_ http.ResponseWriter, r *http.Request) bool {
		got = append(got, r.Header.Get("Authorization"))
		return false
	}
	for _, key := range []string{"", "secret"} {
		var out, problems bytes.Buffer
		a := &app{in: strings.NewReader(""), out: &out, err: &problems, env: func(name string) string {
			return map[string]string{"ONCE_URL": w.url, "ONCE_API_KEY": key}[name]
		}}
		if code := a.run(t.Context(), []string{"send", "orders", "x", "--key", "k"}); code != exitOK {
			t.Errorf("exit %d, %s", code, problems.String())
		}
	}
	if !slices.Equal(got, []string{"", "Bearer secret"}) {
		t.Errorf("the server got %q, want no key and then the key", got)
	}
}

package main

import (
	"context"
	"slices"
	"strings"
	"testing"
)

func TestTheConsoleReadsOnALoopbackAddressAndIsOffOnOthersUnlessSet(t *testing.T) {
	for args, want := range map[string]string{
		"":                                       "read",
		"--listen 127.0.0.2:9":                   "read",
		"--listen localhost:9":                   "read",
		"--listen [::1]:9":                       "read",
		"--listen :9":                            "off",
		"--listen 0.0.0.0:9":                     "off",
		"--listen 192.0.2.1:9":                   "off",
		"--listen 0.0.0.0:9 --console read":      "read",
		"--console off":                          "off",
		"--listen 127.0.0.1:9 --console write":   "write",
		"--console=write --listen 192.0.2.1:433": "write",
	} {
		w := newWorld(t)
		ctx, cancel := context.WithCancel(t.Context())
		w.server = &cannedServer{end: cancel}
		if code := w.once(ctx, "", slices.Concat([]string{"dev", "--data", t.TempDir()}, strings.Fields(args))...); code != exitOK {
			t.Errorf("%s: exit %d, %s", args, code, w.err.String())
		}
		printed := strings.Contains(w.err.String(), "/console")
		if w.serverOptions.Console != want || printed != (want != "off") || strings.Contains(w.err.String(), "may write") != (want == "write") {
			t.Errorf("%s: the console is %s, want %s; printed\n%s", args, w.serverOptions.Console, want, w.err.String())
		}
		cancel()
	}
	w := newWorld(t)
	if code := w.once(t.Context(), "", "dev", "--console", "on"); code != exitUsage || !strings.Contains(w.err.String(), `--console "on" must be off, read or write`) {
		t.Errorf("exit %d, %s", code, w.err.String())
	}
}

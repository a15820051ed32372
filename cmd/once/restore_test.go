package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// putBack stops the server, replaces its data folder by a copy, and starts it.
func (s *devServer) putBack(backup string) {
	s.t.Helper()
	s.kill(syscall.SIGTERM)
	data := filepath.Join(s.dir, "data")
	if err := os.RemoveAll(data); err != nil {
		s.t.Fatal(err)
	}
	s.copyFolder(backup, data)
	if code, out := s.run("restore", "--stamp", "data"); code != exitOK {
		s.t.Fatalf("exit %d: %s", code, out)
	}
	s.start()
}

func (s *devServer) copyFolder(from, to string) {
	s.t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Chmod(to, 0o700); err != nil {
		s.t.Fatal(err)
	}
}

func TestAConsumerContinuesAfterARestoreWhenItsSessionWasRetired(t *testing.T) {
	t.Parallel()
	s := newDevServerWith(t, poolYAML)
	args := []string{"work", "--session", "a", "--file", "out"}
	s.sendNumbers(t.Context(), 1, 5)
	s.finish(s.consume(args...), 5)
	s.kill(syscall.SIGTERM)
	backup := filepath.Join(t.TempDir(), "backup")
	s.copyFolder(filepath.Join(s.dir, "data"), backup)
	s.start()
	s.sendNumbers(t.Context(), 6, 8)
	s.finish(s.consume(args...), 8)

	s.putBack(backup)
	s.sendNumbers(t.Context(), 6, 12) // senders repeat what the copy does not know
	p := s.consume(args...)
	if code := p.code(t); code != exitRefused || !strings.Contains(p.out.string(), "Retire the session") {
		t.Fatalf("a consumer of an older session: exit %d: %s", code, p.out.string())
	}
	if code, out := s.run("sessions", "work"); code != exitOK || !strings.HasSuffix(strings.TrimSpace(strings.Split(out, "\n")[1]), "  restored") {
		t.Errorf("sessions: exit %d: %s", code, out)
	}
	if code, out := s.run("sessions", "work", "--json"); code != exitOK || !strings.Contains(out, `"restored": true`) {
		t.Errorf("sessions --json: exit %d: %s", code, out)
	}
	if code, out := s.run("session", "retire", "work", "a", "--file", "out", "--yes"); code != exitOK {
		t.Fatalf("exit %d: %s", code, out)
	}
	s.finish(s.consume(args...), 7)

	seen := map[int]int{}
	for _, n := range bodies(t, filepath.Join(s.dir, "out")) {
		seen[n]++
	}
	for n := 1; n <= 12; n++ {
		forgotten := n >= 6 && n <= 8
		if want := map[bool]int{false: 1, true: 2}[forgotten]; seen[n] != want {
			t.Errorf("message %d is there %d times, want %d", n, seen[n], want)
		}
	}
}

func TestAConsumerOfTheLogOfAGroupReadsOnAfterARestore(t *testing.T) {
	t.Parallel()
	s := newDevServerWith(t, poolYAML)
	args := []string{"chat", "--group", "g", "--session", "a", "--file", "out", "--max", "2"}
	s.say(t.Context(), "g", "a", "b")
	first := s.process(append([]string{"consume", "--url", "http://" + s.address}, args...)...)
	waitForNumbers(t, filepath.Join(s.dir, "out"), 3) // the first line names the session
	first.interrupt(t)
	first.code(t)
	s.kill(syscall.SIGTERM)
	backup := filepath.Join(t.TempDir(), "backup")
	s.copyFolder(filepath.Join(s.dir, "data"), backup)
	s.start()
	s.putBack(backup)
	s.say(t.Context(), "g", "c", "d", "e")
	second := s.process(append([]string{"consume", "--url", "http://" + s.address}, args...)...)
	waitForNumbers(t, filepath.Join(s.dir, "out"), 6)
	second.interrupt(t)
	second.code(t)
	text, err := os.ReadFile(filepath.Join(s.dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		if n := strings.Count(string(text), `"body of `+key+`"`); n != 1 {
			t.Errorf("%s is there %d times in %s", key, n, text)
		}
	}
}

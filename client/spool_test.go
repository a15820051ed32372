package client_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/client"
)

func inFolder(t *testing.T) client.SenderOptions {
	t.Helper()
	o := lobby()
	o.Folder = filepath.Join(t.TempDir(), "ann")
	return o
}

// leave closes a sender that can't reach the server.
func leave(t *testing.T, s *client.Sender) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Close(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestASenderContinuesInItsFolderUnderTheSameEpochAndNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBackend(t), inFolder(t)
		var want []string
		for n := range 10 {
			switch n % 3 {
			case 0:
				b.set(func(int) fault { return none })
			case 1:
				b.set(func(int) fault { return unanswered })
			case 2:
				b.set(func(int) fault { return lost })
			}
			s := newSender(t, b, o)
			want = say(t, s, 2*n, 2*n+2)
			synctest.Wait()
			leave(t, s)
		}
		b.set(func(int) fault { return none })
		closed(t, newSender(t, b, o))
		asked := 0
		for _, body := range b.requests {
			if body == "" {
				asked++
			}
		}
		if asked != 1 {
			t.Errorf("asked for %d epochs", asked)
		}
		if diff := cmp.Diff(want, b.bodies()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAFolderKeepsEveryFieldOfAMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBackend(t), inFolder(t)
		b.set(func(int) fault { return lost })
		s := newSender(t, b, o)
		m := client.Message{
			Key: "k", DependsOn: map[string]uint64{"bob": 3}, Parents: []uint64{1, 2}, Seen: 77, End: true, NotBefore: time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC), ContentType: "text/plain",
			Headers: map[string]string{"X-A": "b"}, Body: []byte{0, 0xff, '\n'},
		}
		if _, err := s.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		leave(t, s)
		s = newSender(t, b, o)
		m.Stream, m.Group, m.Source, m.Sequence = "room", "lobby", "ann", 1
		if diff := cmp.Diff([]client.Message{m}, s.Unacknowledged()); diff != "" {
			t.Error(diff)
		}
		leave(t, s)
	})
}

// written returns the file of a sender with three messages that were never sent.
func written(t *testing.T) (*backend, client.SenderOptions, []byte) {
	t.Helper()
	b, o := newBackend(t), inFolder(t)
	b.set(func(int) fault { return lost })
	s := newSender(t, b, o)
	say(t, s, 0, 3)
	leave(t, s)
	content, err := os.ReadFile(filepath.Join(o.Folder, "messages"))
	if err != nil {
		t.Fatal(err)
	}
	return b, o, content
}

func TestTheEndOfAFileThatACrashHasCutOffIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o, content := written(t)
		path := filepath.Join(o.Folder, "messages")
		begin := bytes.IndexByte(content, '\n') + 1
		for cut := begin; cut <= len(content); cut++ {
			for _, tail := range []string{"", "\x00\x00\x00"} {
				if cut == len(content) || tail == "" || content[cut-1] != '\n' && content[cut] != '\n' {
					if err := os.WriteFile(path, append(bytes.Clone(content[:cut]), tail...), 0o600); err != nil {
						t.Fatal(err)
					}
					s := newSender(t, b, o)
					whole := bytes.Count(content[:cut], []byte{'\n'}) - 1
					if got := s.Pending(); got != whole {
						t.Fatalf("after %d bytes: %d messages, not %d", cut, got, whole)
					}
					if n, err := s.Send(t.Context(), text(9)); err != nil || n != uint64(whole+1) {
						t.Fatal(n, err)
					}
					leave(t, s)
					s = newSender(t, b, o)
					if got := s.Pending(); got != whole+1 {
						t.Fatalf("after %d bytes and a message: %d messages", cut, got)
					}
					leave(t, s)
				}
			}
		}
	})
}

// lines returns the lines of a file, with their ends.
func lines(content []byte) [][]byte {
	all := bytes.SplitAfter(content, []byte{'\n'})
	return all[:len(all)-1]
}

// TestLinesThatAPowerFailureHasLeftIncompleteAreRemoved makes sectors of the last lines zeros, which
// were never synced, as a disk does that wrote them in another order.
func TestLinesThatAPowerFailureHasLeftIncompleteAreRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o, synced := written(t)
		path := filepath.Join(o.Folder, "messages")
		content := unsynced(synced, 20)
		for at := len(synced); at < len(content); at = (at/512 + 1) * 512 {
			lost := bytes.Clone(content)
			clear(lost[at:min((at/512+1)*512, len(lost))])
			whole := len(lines(lost[:at])) - 1 // the first line is no message
			if err := os.WriteFile(path, lost, 0o600); err != nil {
				t.Fatal(err)
			}
			s := newSender(t, b, o)
			if got := s.Pending(); got != whole {
				t.Fatalf("zeros from byte %d on: %d messages, not %d", at, got, whole)
			}
			if n, err := s.Send(t.Context(), text(9)); err != nil || n != uint64(whole+1) {
				t.Fatal(n, err)
			}
			leave(t, s)
			s = newSender(t, b, o)
			if got := s.Pending(); got != whole+1 {
				t.Fatalf("zeros from byte %d on, and a message: %d messages", at, got)
			}
			leave(t, s)
		}
	})
}

// unsynced returns the content of a file to which messages of 300 bytes were added before any of
// them was durable.
func unsynced(content []byte, n int) []byte {
	first := len(lines(content)) // as many messages, and one
	for i := range n {
		body := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("x"), 300))
		line := fmt.Sprintf(`{"message":{"number":%d,"durable":%d,"body":"%s"}}`, first+i, first-1, body)
		content = fmt.Appendf(bytes.Clone(content), "%08x %s\n", crc32.Checksum([]byte(line), crc32.MakeTable(crc32.Castagnoli)), line)
	}
	return content
}

// TestZerosInALineThatWasDurableAreDamage knows it from a later line.
func TestZerosInALineThatWasDurableAreDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBackend(t), inFolder(t)
		b.set(func(int) fault { return lost })
		s := newSender(t, b, o)
		for range 5 { // each is durable before the next one is written
			if _, err := s.Send(t.Context(), client.Message{Body: bytes.Repeat([]byte("x"), 1000)}); err != nil {
				t.Fatal(err)
			}
		}
		leave(t, s)
		path := filepath.Join(o.Folder, "messages")
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		begin, last := len(lines(content)[0]), len(content)-len(lines(content)[5])
		for at := (begin/512 + 1) * 512; at+512 <= last; at += 512 {
			damaged := bytes.Clone(content)
			clear(damaged[at : at+512])
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			if s, err := b.client().Sender(o); err == nil || !strings.Contains(err.Error(), "the file is damaged") {
				t.Errorf("zeros from byte %d on: %v", at, err)
				leave(t, s)
			}
		}
	})
}

func TestDamageOfAFileIsAnErrorThatNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o, content := written(t)
		path := filepath.Join(o.Folder, "messages")
		for at := range content {
			damaged := bytes.Clone(content)
			damaged[at] ^= 1
			if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			s, err := b.client().Sender(o)
			if err == nil {
				leave(t, s)
				t.Fatalf("byte %d of %d", at, len(content))
			}
			if !strings.Contains(err.Error(), path) && !strings.Contains(err.Error(), o.Folder) {
				t.Fatal(err)
			}
		}
	})
}

func TestAFolderBelongsToOneSenderOfOneSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBackend(t), inFolder(t)
		s := newSender(t, b, o)
		if _, err := b.client().Sender(o); err == nil || !strings.Contains(err.Error(), "another sender has the folder open") {
			t.Error(err)
		}
		closed(t, s)
		o.Source = "bob"
		if _, err := b.client().Sender(o); err == nil || !strings.Contains(err.Error(), `"ann"`) {
			t.Error(err)
		}
		o.Source = "ann"
		closed(t, newSender(t, b, o))
	})
}

func TestASenderGoesOnWhileItsFileCanNotBeWrittenAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBackend(t), inFolder(t)
		o.MaxMessages = 1
		s := newSender(t, b, o)
		blocker := filepath.Join(o.Folder, "messages.new") // no file can be made where a folder is
		if err := os.Mkdir(blocker, 0o700); err != nil {
			t.Fatal(err)
		}
		var want []string
		for n := range 20 {
			body := strings.Repeat(fmt.Sprint(n%10), 100<<10)
			if _, err := s.Send(t.Context(), client.Message{Body: []byte(body)}); err != nil {
				t.Fatal(n, err)
			}
			want = append(want, body)
		}
		closed(t, s)
		if err := os.Remove(blocker); err != nil {
			t.Fatal(err)
		}
		closed(t, newSender(t, b, o))
		if !cmp.Equal(want, b.bodies()) {
			t.Error("the log has other messages than were sent")
		}
	})
}

func TestAFileIsWrittenAnewWhenMostOfItIsAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, o := newBackend(t), inFolder(t)
		size := 0
		var want []string
		for n := range 24 { // 2.4 MB
			s := newSender(t, b, o)
			body := strings.Repeat(fmt.Sprint(n%10), 100<<10)
			if _, err := s.Send(t.Context(), client.Message{Body: []byte(body)}); err != nil {
				t.Fatal(err)
			}
			want = append(want, body)
			closed(t, s)
			content, err := os.ReadFile(filepath.Join(o.Folder, "messages"))
			if err != nil {
				t.Fatal(err)
			}
			size = max(size, len(content))
		}
		if size > 2<<20 {
			t.Errorf("the file had %d bytes", size)
		}
		if !cmp.Equal(want, b.bodies()) {
			t.Error("the log has other messages")
		}
	})
}

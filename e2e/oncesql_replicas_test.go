package e2e

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/effectively-once/once"
	"github.com/effectively-once/once/internal/testkit/freeport"
	"github.com/effectively-once/once/oncesql"
)

// replicaLease is long enough for a loaded machine: a replica that is only slow must not lose it.
const replicaLease = "10s"

// A replica is a process of the service charges, which is killed and started again under another
// name at the same address.
type replica struct {
	binary, source, address string
	number                  int

	mu      sync.Mutex
	name    string
	lives   int
	process *exec.Cmd
}

func (r *replica) start(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lives++
	r.name = fmt.Sprintf("%d.%d", r.number, r.lives)
	r.process = exec.Command(r.binary, r.address, r.name, replicaLease)
	r.process.Env = append(os.Environ(), "DATABASE_URL="+r.source)
	must(t, r.process.Start())
	await(t, "replica "+r.name, func() (bool, error) {
		answer, err := http.Get("http://" + r.address + "/ready")
		if err == nil {
			err = answer.Body.Close()
		}
		return err == nil, nil
	})
}

// kill ends the process with SIGKILL, and returns its name.
func (r *replica) kill(t *testing.T) string {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	must(t, r.process.Process.Kill())
	_ = r.process.Wait() // killed
	return r.name
}

// charge asks a random replica until one has answered with a charge.
func charge(ctx context.Context, replicas []*replica, key, body string) (charge string, replayed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for ; ctx.Err() == nil; _ = sleep(ctx, 50*time.Millisecond) {
		r, err := http.NewRequest(http.MethodPost, "http://"+replicas[rand.IntN(len(replicas))].address+"/charges", strings.NewReader(body))
		if err != nil {
			return "", false, err
		}
		r.Header.Set("Idempotency-Key", key)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			continue // it was killed
		}
		text, err := io.ReadAll(answer.Body)
		_ = answer.Body.Close()
		switch {
		case err != nil, answer.StatusCode == http.StatusConflict, answer.StatusCode == http.StatusServiceUnavailable:
			continue
		case answer.StatusCode != http.StatusCreated:
			return "", false, fmt.Errorf("key %s: %s: %s", key, answer.Status, text)
		}
		return string(bytes.TrimSpace(text)), answer.Header.Get("Idempotent-Replayed") == "true", nil
	}
	return "", false, fmt.Errorf("key %s: no answer in time", key)
}

// Two replicas share PostgreSQL, and each is killed while it runs handlers.
func TestAChargeRunsOnceWhileReplicasAreKilled(t *testing.T) {
	t.Parallel()
	source := database(t, "postgres.sh", "POSTGRES_URL")
	db := openCursors(t, "pgx", source)
	_, err := db.ExecContext(t.Context(), "CREATE TABLE charge_runs (key TEXT NOT NULL, replica TEXT NOT NULL, charge TEXT NOT NULL)")
	must(t, err)
	binary := filepath.Join(t.TempDir(), "charges")
	if out, err := exec.Command("go", "build", "-o", binary, "./charges").CombinedOutput(); err != nil {
		t.Fatalf("build charges: %v\n%s", err, out)
	}
	var replicas []*replica
	for i := range 2 {
		r := &replica{binary: binary, source: source, address: freeport.Address(t), number: i + 1}
		r.start(t)
		t.Cleanup(func() { r.kill(t) })
		replicas = append(replicas, r)
	}
	t.Run("duplicates at the same moment wait for the first answer", func(t *testing.T) {
		sameMoment(t, db, replicas)
	})
	t.Run("a killed replica doubles nothing that was answered", func(t *testing.T) {
		killReplicas(t, db, replicas)
	})
}

func sameMoment(t *testing.T, db *sql.DB, replicas []*replica) {
	const callers = 12
	var answers [callers]string
	var first [callers]bool
	var all sync.WaitGroup
	for i := range callers {
		all.Go(func() {
			answer, replayed, err := charge(t.Context(), replicas, "together", `{"amount":7,"ms":1000}`)
			if err != nil {
				t.Error(err)
			}
			answers[i], first[i] = answer, !replayed
		})
	}
	all.Wait()
	firsts := 0
	for i := range callers {
		if first[i] {
			firsts++
		}
		if answers[i] != answers[0] {
			t.Errorf("caller %d got %s, and caller 0 %s; want one answer", i, answers[i], answers[0])
		}
	}
	if runs := runsOf(t, db)["together"]; len(runs) != 1 || firsts != 1 {
		t.Errorf("%d runs and %d first answers, want one of each", len(runs), firsts)
	}
}

// runsOf returns the replicas on which the handler has run, by key.
func runsOf(t *testing.T, db *sql.DB) map[string][]string {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), "SELECT key, replica FROM charge_runs")
	must(t, err)
	defer rows.Close()
	runs := map[string][]string{}
	for rows.Next() {
		var key, name string
		must(t, rows.Scan(&key, &name))
		runs[key] = append(runs[key], name)
	}
	must(t, rows.Err())
	return runs
}

func killReplicas(t *testing.T, db *sql.DB, replicas []*replica) {
	const clients, keysEach = 8, 40
	answers := make([]map[string]string, 2*clients)
	var all sync.WaitGroup
	for i := range answers {
		answers[i] = map[string]string{}
		all.Go(func() {
			for n := range keysEach {
				key := fmt.Sprintf("client-%d-key-%d", i/2, n) // two callers send each key
				answer, _, err := charge(t.Context(), replicas, key, `{"amount":7,"ms":30}`)
				if err != nil {
					t.Error(err)
				}
				answers[i][key] = answer
			}
		})
	}
	dead := map[string]bool{}
	for i, r := range replicas {
		// in the middle of the load, and of handlers
		for enough, deadline := (i+1)*clients*keysEach/4, time.Now().Add(2*time.Minute); len(runsOf(t, db)) < enough; {
			if t.Failed() || time.Now().After(deadline) {
				t.Errorf("%d keys have run, want %d", len(runsOf(t, db)), enough)
				break
			}
			must(t, sleep(t.Context(), 10*time.Millisecond))
		}
		dead[r.kill(t)] = true
		r.start(t)
	}
	all.Wait()
	interrupted := 0
	runs := runsOf(t, db)
	for i := range clients {
		for key, answer := range answers[2*i] {
			if other := answers[2*i+1][key]; answer != other || answer == "" {
				t.Errorf("%s: one caller got %q, and the other one %q; want one answer", key, answer, other)
			}
			alive, seen := 0, map[string]bool{}
			for _, name := range runs[key] {
				if seen[name] {
					t.Errorf("%s ran twice on replica %s, want once: %v", key, name, runs[key])
				}
				if seen[name] = true; !dead[name] {
					alive++
				} else {
					interrupted++
				}
			}
			if alive > 1 || len(runs[key]) == 0 {
				t.Errorf("%s ran on %v; want one run on replicas that were not killed", key, runs[key])
			}
		}
	}
	t.Logf("%d keys, %d runs on replicas that were killed later", clients*keysEach, interrupted)
}

// A rough connection loses one in thirty requests to the database, and as many answers.
type rough struct{ net.Conn }

func (r rough) lose() error {
	_ = r.Close()
	return syscall.ECONNRESET
}

func (r rough) Write(b []byte) (int, error) {
	if rand.IntN(30) == 0 {
		return 0, r.lose()
	}
	return r.Conn.Write(b)
}

func (r rough) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	if n > 0 && rand.IntN(30) == 0 { // the database has done the work
		return 0, r.lose()
	}
	return n, err
}

func TestLostAnswersOfTheDatabaseRunNoHandlerTwice(t *testing.T) {
	t.Parallel()
	source := database(t, "postgres.sh", "POSTGRES_URL")
	must(t, oncesql.Table{DB: openCursors(t, "pgx", source), Dialect: oncesql.PostgreSQL}.Create(t.Context()))
	const keys, attempts = 120, 3
	var mu sync.Mutex
	runs := map[string]int{}
	var guards []once.Guarded
	for range 2 {
		config, err := pgx.ParseConfig(source)
		must(t, err)
		config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := (&net.Dialer{}).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return rough{c}, nil
		}
		db := stdlib.OpenDB(*config)
		db.SetMaxOpenConns(8)
		t.Cleanup(func() { _ = db.Close() })
		tokens, err := oncesql.Table{DB: db, Dialect: oncesql.PostgreSQL}.Tokens()
		must(t, err)
		guards = append(guards, once.Leased(tokens, func(_ context.Context, m once.Message) (once.Reply, error) {
			mu.Lock()
			defer mu.Unlock()
			runs[m.ID]++
			return once.Reply{Body: fmt.Append(nil, m.ID, " ", runs[m.ID])}, nil
		}, once.GuardConfig{Lease: 20 * time.Second}))
	}
	next := make(chan string)
	failures := 0
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for id := range next {
				for deadline := time.Now().Add(3 * time.Minute); ; {
					outcome, err := guards[i%2](t.Context(), once.Message{Stream: "work", ID: id})
					if err == nil {
						if want := id + " 1"; string(outcome.Reply.Body) != want {
							t.Errorf("%s: reply %q, want %q", id, outcome.Reply.Body, want)
						}
						break
					}
					if _, leased := errors.AsType[*once.LeasedError](err); !leased {
						mu.Lock()
						failures++
						mu.Unlock()
					}
					if time.Now().After(deadline) {
						t.Errorf("%s: %v; want an answer in time", id, err)
						break
					}
					_ = sleep(t.Context(), 10*time.Millisecond) // the next call says that the test has ended
				}
			}
		})
	}
	for n := range keys * attempts {
		next <- fmt.Sprint("message ", n/attempts)
	}
	close(next)
	all.Wait()
	if failures == 0 {
		t.Error("no call has failed: nothing is shown")
	}
	t.Logf("%d calls failed", failures)
	for id, n := range runs {
		if n != 1 {
			t.Errorf("%s ran %d times, want once", id, n)
		}
	}
	if len(runs) != keys {
		t.Errorf("%d messages ran, want %d", len(runs), keys)
	}
}

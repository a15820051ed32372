package function

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/effectively-once/once/internal/dedup/dynamostore"
	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/system/function/tasks"
)

// thousand yields groups, and then fails.
func thousand(err error) iter.Seq2[record.GroupKey, error] {
	return func(yield func(record.GroupKey, error) bool) {
		for i := range 1000 {
			if !yield(record.GroupKey{Stream: "s", Group: fmt.Sprint(i)}, nil) {
				return
			}
		}
		yield(record.GroupKey{}, err)
	}
}

func TestACancelledSweepVisitsNoMoreGroupsAndReturnsAnError(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := &System{log: slog.New(slog.DiscardHandler)}
	swept, err := s.sweep(ctx, thousand(nil), func(ctx context.Context, _ record.GroupKey) error {
		cancel()
		return ctx.Err()
	})
	if !errors.Is(err, context.Canceled) || swept.Groups == 0 || swept.Groups > 2*sweepers || swept.Done {
		t.Errorf("%+v, %v", swept, err)
	}
}

func TestASweepWhoseTimeIsOverIsNotDoneAndNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s := &System{log: slog.New(slog.DiscardHandler)}
		swept, err := s.sweep(ctx, thousand(nil), func(ctx context.Context, key record.GroupKey) error {
			if key.Group == "0" {
				return nil
			}
			<-ctx.Done() // as a store that does not answer
			return fmt.Errorf("load group: %w", ctx.Err())
		})
		if diff := cmp.Diff(tasks.Swept{Groups: 1}, swept); diff != "" || err != nil {
			t.Errorf("%v; swept (-want +got)\n%s", err, diff)
		}
	})
}

func TestASweepThatEndsForAnotherReasonThanTimeIsAnError(t *testing.T) {
	away := errors.New("away")
	over, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	for name, c := range map[string]struct {
		ctx    context.Context
		groups iter.Seq2[record.GroupKey, error]
		want   error
	}{
		"the list fails":           {t.Context(), thousand(away), away},
		"no group could be listed": {over, func(yield func(record.GroupKey, error) bool) { yield(record.GroupKey{}, over.Err()) }, context.DeadlineExceeded},
	} {
		s := &System{log: slog.New(slog.DiscardHandler)}
		swept, err := s.sweep(c.ctx, c.groups, func(context.Context, record.GroupKey) error { return nil })
		if !errors.Is(err, c.want) || swept.Done {
			t.Errorf("%s: %+v, %v", name, swept, err)
		}
	}
}

// A tableWithoutEnd stops answering behind one group, or from the beginning if there is none.
type tableWithoutEnd struct {
	*dynamodb.Client
	behind string
}

func (c tableWithoutEnd) Scan(ctx context.Context, in *dynamodb.ScanInput, options ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	if pk, ok := in.ExclusiveStartKey["pk"].(*types.AttributeValueMemberS); c.behind == "" || ok && pk.Value == c.behind {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return c.Client.Scan(ctx, in, options...)
}

// A stray is a claim of a group that does not exist.
type stray struct{ deleted int }

func (*stray) Put(context.Context, string, []byte) error         { return nil }
func (*stray) Get(context.Context, string) ([]byte, bool, error) { return nil, false, nil }
func (*stray) List(context.Context, time.Time) ([]string, error) {
	return []string{"b3RoZXIjZw/attempt/s"}, nil
}

func (s *stray) Delete(_ context.Context, names []string) error { s.deleted += len(names); return nil }

func TestStraysAreDeletedWithoutTimeForAllGroups(t *testing.T) {
	settings, clients := emulated(t, sweptConfig)
	s, err := Open(Process, settings, clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	idle(t, s, "idle")
	for behind, mayFail := range map[string]bool{"steps#idle": false, "": true} {
		claims := &stray{}
		s.store, err = dynamostore.New(tableWithoutEnd{clients.DynamoDB, behind}, settings.Tables, dynamostore.Options{Claims: claims})
		if err != nil {
			t.Fatal(err)
		}
		s.bucket = true
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		answer, err := s.do(ctx, tasks.Task{Once: tasks.SweepAll})
		cancel()
		if diff := cmp.Diff(any(tasks.Swept{Strays: 1}), answer); diff != "" || claims.deleted != 1 {
			t.Errorf("behind %q: swept (-want +got)\n%s", behind, diff)
		}
		if failed := errors.Is(err, context.DeadlineExceeded); failed != mayFail || !failed && err != nil {
			t.Errorf("behind %q: %v", behind, err)
		}
	}
}

// idle makes a group that needs no sweep.
func idle(t *testing.T, s *System, name string) {
	t.Helper()
	key := record.GroupKey{Stream: "steps", Group: name}
	next := record.Group{Key: key, Incarnation: 1, Version: 1, Expires: time.Now().Add(time.Hour)}
	if err := s.store.Commit(t.Context(), record.Commit{Loaded: record.Group{Key: key}, Next: next, Attempt: "a"}); err != nil {
		t.Fatal(err)
	}
}

func TestATaskEndsAheadOfItsFunction(t *testing.T) {
	now := time.Now()
	s := &System{now: func() time.Time { return now }}
	for limit, want := range map[time.Duration]time.Duration{30 * time.Second: 25 * time.Second, 5 * time.Second: 2500 * time.Millisecond} {
		ctx, cancel := context.WithDeadline(t.Context(), now.Add(limit))
		kept, release := s.keep(ctx, margin)
		if deadline, _ := kept.Deadline(); deadline.Sub(now) != want {
			t.Errorf("a task of a function with %s has %s, want %s", limit, deadline.Sub(now), want)
		}
		release()
		cancel()
	}
}

package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/effectively-once/once/internal/record"
	"github.com/effectively-once/once/internal/telemetry"
)

func invocation(ctx context.Context, id string) context.Context {
	return lambdacontext.NewContext(ctx, &lambdacontext.LambdaContext{AwsRequestID: id})
}

func TestAnInvocationReportsAtItsEndAlsoAfterAnErrorOrAPanic(t *testing.T) {
	for name, how := range map[string]func() (string, error){
		"success": func() (string, error) { return "fine", nil },
		"failure": func() (string, error) { return "", errors.New("failed") },
		"panic":   func() (string, error) { panic("secret") },
	} {
		t.Run(name, func(t *testing.T) {
			tm, out := opened(t, telemetry.Options{})
			function := telemetry.Invoke(tm, func(context.Context, int) (string, error) {
				tm.Observe(record.Event{Name: record.EventRetried, Stream: "orders", Count: 1})
				tm.Observe(record.Event{Name: record.EventRetried, Stream: "orders", Count: 1})
				if out.Len() > 0 {
					t.Error("written before the end")
				}
				return how()
			})
			panicked := func() (value any) {
				defer func() { value = recover() }()
				answer, err := function(invocation(t.Context(), "r-7"), 1)
				if (name == "success") != (answer == "fine") || (name == "failure") != (err != nil) {
					t.Errorf("answer %q, %v", answer, err)
				}
				return nil
			}()
			if (name == "panic") != (panicked != nil) {
				t.Errorf("panic %v", panicked)
			}
			docs := documents(t, out.String())
			if len(docs) != 1 || docs[0].values()["Retried"] != 2 || docs[0].root["requestId"] != "r-7" {
				t.Errorf("lines %s", out)
			}
		})
	}
}

func TestALineOfTheLogNamesItsInvocation(t *testing.T) {
	var out bytes.Buffer
	log := telemetry.NewLog(&out, "once-process", "warn")
	tm, _ := opened(t, telemetry.Options{Log: log})
	line := func() map[string]any {
		t.Helper()
		var got map[string]any
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatalf("%q: %v", out.String(), err)
		}
		out.Reset()
		return got
	}
	function := telemetry.Invoke(tm, func(ctx context.Context, _ int) (int, error) {
		log.InfoContext(ctx, "below the level")
		log.With("stream", "orders").Warn("message refused") // as most is logged: without a context
		if got := line(); got["requestId"] != "r-1" || got["function"] != "once-process" || got["stream"] != "orders" || got["message"] != "message refused" || got["level"] != "WARN" || got["timestamp"] == nil {
			t.Errorf("line %v", got)
		}
		other := invocation(ctx, "r-2")
		log.ErrorContext(other, "with a context")
		if got := line(); got["requestId"] != "r-2" {
			t.Errorf("line %v", got)
		}
		_, err := telemetry.Invoke(tm, func(context.Context, int) (int, error) {
			log.Warn("one of two requests")
			if got := line(); got["requestId"] != nil {
				t.Errorf("line %v", got)
			}
			return 0, nil
		})(other, 0)
		return 0, err
	})
	if _, err := function(invocation(t.Context(), "r-1"), 0); err != nil {
		t.Fatal(err)
	}
	log.Warn("between requests")
	if got := line(); got["requestId"] != nil {
		t.Errorf("line %v", got)
	}
}

func TestTheLevelsAreThoseOfLambda(t *testing.T) {
	for level, want := range map[string]slog.Level{"TRACE": slog.LevelDebug, "DEBUG": slog.LevelDebug, "": slog.LevelInfo, "WARN": slog.LevelWarn, "FATAL": slog.LevelError} {
		log := telemetry.NewLog(&strings.Builder{}, "", level)
		if !log.Enabled(t.Context(), want) || log.Enabled(t.Context(), want-1) {
			t.Errorf("%q does not begin with %s", level, want)
		}
	}
}

func TestALineOfMetricsNamesItsFunctionWithinLambdaOnly(t *testing.T) {
	before := lambdacontext.FunctionName
	t.Cleanup(func() { lambdacontext.FunctionName = before })
	for _, name := range []string{"", "process"} {
		lambdacontext.FunctionName = name
		tm, out := opened(t, telemetry.Options{})
		function := telemetry.Invoke(tm, func(context.Context, int) (int, error) {
			tm.Observe(record.Event{Name: record.EventRetried, Stream: "orders", Count: 1})
			return 0, nil
		})
		if _, err := function(invocation(t.Context(), "r"), 1); err != nil {
			t.Fatal(err)
		}
		got, there := documents(t, out.String())[0].root["function"]
		if there != (name != "") || there && got != name {
			t.Errorf("function %q: the line says %v", name, got)
		}
	}
}

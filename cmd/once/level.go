package main

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// level is the value of --log-level.
type level struct{ slog.Level }

func levels() []string { return []string{"debug", "info", "warn", "error"} }

// Set implements pflag.Value.
func (l *level) Set(text string) error {
	if !slices.Contains(levels(), strings.ToLower(text)) {
		return fmt.Errorf("--log-level %q must be debug, info, warn or error", text)
	}
	return l.UnmarshalText([]byte(text))
}

// String implements pflag.Value.
func (l *level) String() string { return strings.ToLower(l.Level.String()) }

// Type implements pflag.Value.
func (l *level) Type() string { return "level" }

func levelFlag(cmd *cobra.Command) *level {
	l := &level{slog.LevelInfo}
	cmd.Flags().Var(l, "log-level", "least severe log entries to print: debug, info, warn or error")
	completeFlag(cmd, "log-level", levels())
	return l
}

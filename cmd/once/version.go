package main

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// release is the version that a release build, or a build of sources without version control, sets:
// go build -ldflags '-X main.release=v1.2.0'. Without it, it is the version of the module, which
// go install knows.
var release string //nolint:gochecknoglobals // the linker sets it

// build is the JSON output of version.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Time     string `json:"time,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
}

func (a *app) version() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Print the version", Example: "  once version --json", Args: arguments(cobra.NoArgs),
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(*cobra.Command, []string) error {
		b := built(debug.ReadBuildInfo())
		if *asJSON {
			return printJSON(a.out, b)
		}
		_, err := fmt.Fprintln(a.out, b)
		return err
	}
	return cmd
}

// String returns one line for people.
func (b build) String() string {
	text := "once " + b.Version
	if b.Revision != "" {
		text += " (" + strings.TrimSpace(b.Revision[:min(12, len(b.Revision))]+" "+b.Time) + ")"
	}
	return strings.TrimSpace(text + " " + b.Go)
}

func built(info *debug.BuildInfo, ok bool) build {
	if !ok {
		return build{Version: cmp.Or(release, "unknown")}
	}
	b := build{Version: cmp.Or(release, info.Main.Version, "(devel)"), Go: info.GoVersion}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

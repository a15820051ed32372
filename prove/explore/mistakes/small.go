package mistakes

import (
	"context"
	"fmt"
	"io/fs"

	"github.com/goccy/go-yaml"

	"github.com/effectively-once/once/prove/explore"
)

// A Small is a limit in the source that is made so small that explorations with few messages reach
// it. The code has to be correct with the small limit too.
type Small struct {
	// Name describes the limit.
	Name    string   `yaml:"name"`
	Changes []Change `yaml:"changes"`
	// Scenarios are patterns of the scenarios to explore.
	Scenarios []string `yaml:"scenarios"`
}

// LoadSmall reads a list of small limits.
func LoadSmall(files fs.FS, name string) ([]Small, error) {
	text, err := fs.ReadFile(files, name)
	if err != nil {
		return nil, fmt.Errorf("load small numbers: %w", err)
	}
	var out []Small
	if err := yaml.UnmarshalWithOptions(text, &out, yaml.Strict()); err != nil {
		return nil, fmt.Errorf("load small numbers: %w", err)
	}
	for i := range out {
		if out[i].Name == "" || len(out[i].Changes) == 0 || len(out[i].Scenarios) == 0 {
			return nil, fmt.Errorf("load small numbers: %q needs a name, changes and scenarios", out[i].Name)
		}
	}
	return out, nil
}

// Fits returns an error if the source at root no longer contains the limits.
func (s Small) Fits(root string) error { return Mistake{Name: s.Name, Changes: s.Changes}.Fits(root) }

// JoinSmall builds the explorer with all limits, of which one is chosen when it starts.
func JoinSmall(ctx context.Context, root, folder string, list []Small) (*Joint, error) {
	all := make([]Mistake, len(list))
	for i, s := range list {
		all[i] = Mistake{Name: s.Name, Changes: s.Changes}
	}
	return Join(ctx, root, folder, all)
}

// Explore explores the scenarios with the small limit i of a build, each up to about bound states.
func (s Small) Explore(ctx context.Context, j *Joint, i, bound int) ([]explore.Result, error) {
	run, err := j.runner(i)
	if err != nil {
		return nil, fmt.Errorf("explore with %s: %w", s.Name, err)
	}
	var all []explore.Result
	for _, pattern := range s.Scenarios {
		found, err := exploreChanged(ctx, run, j.results(i), pattern, bound)
		if err != nil {
			return nil, fmt.Errorf("explore with %s: %w", s.Name, err)
		}
		all = append(all, found...)
	}
	return all, nil
}

package telemetry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"
)

// EMF writes reports as lines of the log that CloudWatch converts to metrics: documents in its
// embedded metric format.
//
// A document has one value for its dimension, so there is one line for each stream. Each line
// counts for its stream and, by the empty set of dimensions, for the whole system: CloudWatch adds
// up the counts, and takes the greatest age.
type EMF struct {
	// Output is the standard output of the function. Required.
	Output io.Writer
	// Namespace defaults to [Namespace].
	Namespace string
	// Level is the level of the lines in a JSON log. Lambda drops lines below the level that is set
	// for the function, including metrics, and treats lines without a level as INFO. So this is the
	// function's level. Empty means INFO.
	Level string
	// Now defaults to time.Now.
	Now func() time.Time
}

type emfMetadata struct {
	Timestamp         int64 // Unix milliseconds
	CloudWatchMetrics []emfDirective
}

type emfDirective struct {
	Namespace  string
	Dimensions [][]string
	Metrics    []emfMetric
}

type emfMetric struct{ Name, Unit string }

// Write reports counts; if there are none, it writes nothing. attributes are further members of
// each line, such as the request's id; none may have the name of a metric or the dimension. All
// lines are written in one call.
func (f EMF) Write(counts Counts, attributes map[string]string) error {
	var b bytes.Buffer
	for _, stream := range slices.Sorted(maps.Keys(counts)) {
		if len(counts[stream]) == 0 {
			continue
		}
		line, err := json.Marshal(f.document(stream, counts[stream], attributes))
		if err != nil {
			return fmt.Errorf("encode metrics: %w", err)
		}
		b.Write(append(line, '\n'))
	}
	if b.Len() == 0 {
		return nil
	}
	if _, err := f.Output.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write metrics: %w", err)
	}
	return nil
}

// document returns the members of one line. Lambda honours the level of a line only if the line has
// a time.
func (f EMF) document(stream string, of map[string]float64, attributes map[string]string) map[string]any {
	now := f.now()
	directive := emfDirective{Namespace: cmp.Or(f.Namespace, Namespace), Dimensions: [][]string{{Dimension}, {}}}
	doc := map[string]any{Dimension: stream, "timestamp": now.UTC().Format(time.RFC3339Nano), "level": "INFO"}
	if f.Level != "" {
		doc["level"] = f.Level
	}
	for name, text := range attributes {
		doc[name] = text
	}
	for _, metric := range slices.Sorted(maps.Keys(of)) {
		directive.Metrics = append(directive.Metrics, emfMetric{metric, Unit(metric)})
		doc[metric] = of[metric]
	}
	doc["_aws"] = emfMetadata{Timestamp: now.UnixMilli(), CloudWatchMetrics: []emfDirective{directive}}
	return doc
}

func (f EMF) now() time.Time {
	if f.Now == nil {
		f.Now = time.Now
	}
	return f.Now()
}

package infra

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// No emulator evaluates alarms, so this file does, by the rules of
// https://docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/alarm-evaluation.html. One thing is
// simpler: the last periods count, whereas CloudWatch looks further back if data is missing.

// A point is a value of a metric.
type point struct {
	at     time.Time
	metric string // as measure names it
	value  float64
}

// measure returns the name of a metric: namespace, name, and dimensions in alphabetical order.
func measure(namespace, name string, dimensions map[string]string) string {
	out := namespace + " " + name
	for _, d := range slices.Sorted(maps.Keys(dimensions)) {
		out += " " + d + "=" + dimensions[d]
	}
	return out
}

// named returns a metric's dimensions in a template. References are the ids of resources, without
// the pipeline's and without the hash at the end.
func named(list any) map[string]string {
	out := map[string]string{}
	dimensions, _ := list.([]any)
	for _, d := range dimensions {
		value := fmt.Sprint(at(d, "Value"))
		for _, path := range []string{"Value.Fn::GetAtt.0", "Value.Ref"} {
			if id, ok := at(d, path).(string); ok {
				value = strings.TrimPrefix(id[:len(id)-8], "Pipeline")
			}
		}
		out[fmt.Sprint(at(d, "Name"))] = value
	}
	return out
}

// embedded returns the points in lines of the embedded metric format.
func embedded(t *testing.T, lines string) (out []point) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var root map[string]any
		if err := json.Unmarshal([]byte(line), &root); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		directives, _ := at(root, "_aws.CloudWatchMetrics").([]any)
		for _, d := range directives {
			for _, set := range at(d, "Dimensions").([]any) {
				dimensions := map[string]string{}
				for _, name := range set.([]any) {
					dimensions[name.(string)] = root[name.(string)].(string)
				}
				for _, m := range at(d, "Metrics").([]any) {
					name := at(m, "Name").(string)
					out = append(out, point{metric: measure(at(d, "Namespace").(string), name, dimensions), value: root[name].(float64)})
				}
			}
		}
	}
	return out
}

// An alarm is an alarm of a template.
type alarm struct {
	name              string
	metrics           []string
	sum               bool // the metrics are added up, and missing values are 0
	statistic         string
	period            time.Duration
	points, periods   int
	threshold         float64
	below             bool
	breaching, ignore bool // how missing data is treated; otherwise it is not breaching
}

// alarms returns the alarms of a template. It fails the test if one has a property that is not
// evaluated here.
func (x *template) alarms(t *testing.T) (out []alarm) {
	t.Helper()
	for _, id := range slices.Sorted(maps.Keys(x.Resources)) {
		if r := x.Resources[id]; r.Type == alarmType {
			out = append(out, read(t, id, r))
		}
	}
	return out
}

func read(t *testing.T, id string, r resource) alarm {
	t.Helper()
	p := r.Properties
	number := func(name string) float64 { return p[name].(float64) }
	a := alarm{
		name: strings.TrimPrefix(id[:len(id)-8], "Alarms"), points: int(number("DatapointsToAlarm")), periods: int(number("EvaluationPeriods")), threshold: number("Threshold"),
		below: p["ComparisonOperator"] == "LessThanThreshold", breaching: p["TreatMissingData"] == "breaching",
	}
	if !a.below && p["ComparisonOperator"] != "GreaterThanOrEqualToThreshold" || !a.breaching && p["TreatMissingData"] != "notBreaching" {
		t.Fatalf("%s has an operator or a treatment that is not evaluated: %v", a.name, p)
	}
	seconds := p["Period"]
	if a.statistic, _ = p["Statistic"].(string); a.statistic == "" {
		a.statistic, _ = p["ExtendedStatistic"].(string)
	}
	if p["Metrics"] == nil {
		a.metrics = []string{measure(p["Namespace"].(string), p["MetricName"].(string), named(p["Dimensions"]))}
		// whatever an alarm says
		a.ignore = p["Namespace"] == "AWS/DynamoDB"
	}
	list, _ := p["Metrics"].([]any)
	for _, m := range list {
		if expression := at(m, "Expression"); expression != nil {
			if a.sum = expression == "SUM(FILL(METRICS(), 0))"; !a.sum {
				t.Fatalf("%s has an expression that is not evaluated: %v", a.name, expression)
			}
			continue
		}
		a.metrics = append(a.metrics, measure(at(m, "MetricStat.Metric.Namespace").(string), at(m, "MetricStat.Metric.MetricName").(string), named(at(m, "MetricStat.Metric.Dimensions"))))
		a.statistic, seconds = at(m, "MetricStat.Stat").(string), at(m, "MetricStat.Period")
	}
	a.period = time.Duration(seconds.(float64) * float64(time.Second))
	return a
}

// statistic returns a statistic of values. There is at least one.
func statistic(name string, values []float64) float64 {
	switch name {
	case "Sum":
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		return sum
	case "Maximum":
		return slices.Max(values)
	}
	percent, err := strconv.ParseFloat(strings.TrimPrefix(name, "p"), 64)
	if err != nil {
		panic("not evaluated: " + name)
	}
	values = slices.Sorted(slices.Values(values))
	return values[max(0, int(math.Ceil(percent/100*float64(len(values))))-1)]
}

// datapoints returns the values by the beginning of their period, without those that are missing.
func (a *alarm) datapoints(points []point) map[time.Time]float64 {
	byMetric := map[time.Time]map[string][]float64{}
	for _, p := range points {
		if !slices.Contains(a.metrics, p.metric) {
			continue
		}
		begin := p.at.Truncate(a.period)
		if byMetric[begin] == nil {
			byMetric[begin] = map[string][]float64{}
		}
		byMetric[begin][p.metric] = append(byMetric[begin][p.metric], p.value)
	}
	out := map[time.Time]float64{}
	for begin, metrics := range byMetric {
		for _, values := range metrics {
			out[begin] += statistic(a.statistic, values)
		}
	}
	return out
}

// firing returns the times, once a minute, at which the alarm is on.
func (a *alarm) firing(points []point, from, to time.Time) (out []time.Time) {
	data, on := a.datapoints(points), false
	for now := from; now.Before(to); now = now.Add(time.Minute) {
		breaching, missing := 0, 0
		for i := range a.periods {
			value, there := data[now.Truncate(a.period).Add(-time.Duration(i+1)*a.period)]
			switch {
			case !there && !a.sum:
				missing++
				if a.breaching {
					breaching++
				}
			case a.below == (value < a.threshold):
				breaching++
			}
		}
		if !a.ignore || missing < a.periods {
			on = breaching >= a.points
		}
		if on {
			out = append(out, now)
		}
	}
	return out
}

func TestTheEvaluatorFollowsTheRulesOfCloudWatch(t *testing.T) {
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	minute := func(n int) time.Time { return begin.Add(time.Duration(n) * time.Minute) }
	at := func(values map[int]float64) (out []point) {
		for n, v := range values {
			out = append(out, point{at: minute(n).Add(30 * time.Second), metric: "m", value: v})
		}
		return out
	}
	one := alarm{metrics: []string{"m"}, statistic: "Sum", period: time.Minute, points: 1, periods: 1, threshold: 1}
	with := func(change func(*alarm)) alarm {
		a := one
		change(&a)
		return a
	}
	for name, c := range map[string]struct {
		alarm  alarm
		values map[int]float64
		want   []int // minutes
	}{
		"a value counts when its period is over": {one, map[int]float64{3: 1}, []int{4}},
		"missing data is not breaching":          {one, nil, nil},
		"below the threshold":                    {one, map[int]float64{3: 0.5}, nil},
		"2 of 3":                                 {with(func(a *alarm) { a.points, a.periods = 2, 3 }), map[int]float64{1: 1, 3: 1, 8: 1}, []int{4}},
		"a longer period":                        {with(func(a *alarm) { a.period = 5 * time.Minute }), map[int]float64{2: 1}, []int{5, 6, 7, 8, 9}},
		"silence": {
			with(func(a *alarm) { a.below, a.breaching, a.points, a.periods = true, true, 2, 2 }),
			map[int]float64{0: 1, 1: 1, 2: 1, 5: 1, 6: 1, 7: 1, 8: 1},
			[]int{0, 5},
		},
		"ignored data keeps the state": {with(func(a *alarm) { a.ignore = true }), map[int]float64{3: 1, 6: 0}, []int{4, 5, 6}},
		"filled data ends it":          {with(func(a *alarm) { a.sum = true }), map[int]float64{3: 1}, []int{4}},
	} {
		var want []time.Time
		for _, n := range c.want {
			want = append(want, minute(n))
		}
		if got := c.alarm.firing(at(c.values), begin, minute(10)); !slices.Equal(got, want) {
			t.Errorf("%s: on at %v, want %v", name, got, want)
		}
	}
	for name, want := range map[string]float64{"Sum": 10, "Maximum": 4, "p50": 2, "p99": 4} {
		if got := statistic(name, []float64{4, 1, 3, 2}); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
}

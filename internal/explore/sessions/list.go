package sessions

// Scenarios returns the scenarios, which are small enough to visit all of their states.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "one-consumer", Entries: []int{1}, Consumers: []string{"a"}, Window: 1, Lost: 2, Late: 1},
		{Name: "one-consumer-database", Entries: []int{1}, Consumers: []string{"a"}, Window: 1, Lost: 2, Late: 1, Database: true},
		{Name: "one-consumer-dead", Entries: []int{1}, Consumers: []string{"a"}, Window: 1, Lost: 1, Late: 1, Database: true, DeadLetters: true, Fails: 1},
		{Name: "two-consumers", Entries: []int{1}, Consumers: []string{"a", "a"}, Window: 1, Lost: 1},
		{Name: "conflicts", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1},
		{Name: "conflicts-database", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Database: true},
		{Name: "retire", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Direct: true, Lost: 1},
		{Name: "retire-late", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Direct: true, Late: 1},
		{Name: "retire-database", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Direct: true, Lost: 1, Database: true},
		{Name: "retire-database-late", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Direct: true, Late: 1, Database: true},
		{Name: "retire-dead", Entries: []int{2}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 2, Direct: true, DeadLetters: true, Fails: 1, Lost: 1},
		{Name: "retire-database-dead", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a"}, Window: 1, Direct: true, Database: true, DeadLetters: true, Fails: 1, Lost: 1},
		{Name: "three", Entries: []int{1}, Consumers: []string{"a", "a"}, Operators: []string{"a"}, Window: 1, Direct: true},
		{Name: "three-database", Entries: []int{1}, Consumers: []string{"a", "a"}, Operators: []string{"a"}, Window: 1, Database: true, Direct: true},
		{Name: "two-operators", Entries: []int{1}, Consumers: []string{"a"}, Operators: []string{"a", "a"}, Window: 1, Direct: true},
		{Name: "two-names", Entries: []int{2}, Consumers: []string{"a", "b"}, Operators: []string{"a"}, Window: 1, Direct: true},
		{Name: "two-names-database", Entries: []int{2}, Consumers: []string{"a", "b"}, Operators: []string{"a"}, Window: 2, Direct: true, Database: true},
		{Name: "two-partitions", Entries: []int{2, 1}, Consumers: []string{"a", "b"}, Operators: []string{"a"}, Window: 2, Direct: true},
		{Name: "by-partition", Entries: []int{2, 1}, Consumers: []string{"a", "b"}, Window: 1, ByPartition: true, Direct: true},
		{Name: "by-partition-retire", Entries: []int{1, 1}, Consumers: []string{"a", "b"}, Operators: []string{"a"}, Window: 1, ByPartition: true, Direct: true},
		{Name: "by-partition-database", Entries: []int{2}, Consumers: []string{"a", "b"}, Operators: []string{"a"}, Window: 1, ByPartition: true, Database: true, Direct: true},
	}
}

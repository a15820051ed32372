// Package roles decides what the callers of a server may do. A caller is in the context of its
// request; one table has the roles that each route needs, and [Allow] compares them.
package roles

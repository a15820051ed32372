// Package console serves pages at /console, on which people see the messages of an embedded system,
// the reasons why some wait, and repair them. The pages are rendered here from the answers that the
// commands print. Each page names the command that does the same.
//
// # Limits
//
// It has no authentication: anyone who can reach the listener can read every page. Requests under a
// foreign host name are refused, so that no web page of another site can read the console of a
// server on the same machine. Writing needs [Options.Write], a request of the same origin, and a
// token that only the pages of this process have.
package console

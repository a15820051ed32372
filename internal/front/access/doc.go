// Package access decides who may call the HTTP API of a server, and what for. It authenticates each
// request by a key or by a token of an OpenID Connect issuer, limits the requests of one caller,
// and adds its caller to the request, for package roles.
//
// The console asks for the key of operators, as a password, because a browser can give that.
//
// # Limits
//
// Roles are for whole streams, not for groups. The outcome and the reply of a message are its
// sender's alone.
//
// The SQS protocol is refused while callers are authenticated: its signatures could only be checked
// with the keys themselves, and the server keeps nothing but their hashes.
package access

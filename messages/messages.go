// Package messages holds all that is said between processes, and what is kept on disk: the messages generated from the
// .proto files, what each must be like (Validate), and the limits of what may be said. It knows topology alone.
package messages

package httpapi

import (
	"context"
	"net/http"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/yi-json/synapse/messages"
)

// This file admits requests of other APIs on the same port: with the same refusals, identities and limits as the calls
// below Prefix.

// Visit is a request of another API with an authenticated sender.
type Visit struct {
	Context context.Context          // ends with the request, and with the session of its sender
	Line    grpc.ClientConnInterface // makes calls for the sender
	who     *Caller
	give    func() // frees the memory of the body
}

// Open admits a request. The caller calls done after the answer.
func (a *API) Open(w http.ResponseWriter, r *http.Request) (v *Visit, done func(), err error) {
	if err := a.walls(r); err != nil {
		return nil, nil, err
	}
	who, ctx, _, leave, err := a.enter(r)
	if err != nil {
		return nil, nil, err
	}
	v = &Visit{Context: ctx, Line: withTrailers{a.o.Service.Line(who.Peer), w}, who: who, give: func() {}}
	return v, func() { v.give(); leave() }, nil
}

// Body reads the body of a request that becomes a call, within the limits of a call. It is called at most once.
func (a *API) Body(w http.ResponseWriter, r *http.Request, v *Visit, call string) (text []byte, err error) {
	text, v.give, err = a.text(w, r, call, v.who)
	return text, err
}

// Explanation describes an error for an API with another form.
type Explanation struct {
	Status            int
	Code              messages.Code
	Field, Text, Hint string
}

// Explain describes an error of Open, Body or a call.
func Explain(err error) Explanation {
	r := refusalOf(err)
	return Explanation{r.status, messages.Code(messages.Code_value[r.Code]), r.Field, r.Text, r.Hint}
}

// StatusOf returns the HTTP status of a code.
func StatusOf(code messages.Code) int {
	if status := statuses[code]; status != 0 {
		return status
	}
	return http.StatusInternalServerError
}

// withTrailers makes calls, and sets the headers for the trailers of their answers.
type withTrailers struct {
	grpc.ClientConnInterface
	w http.ResponseWriter
}

// Invoke makes a call.
func (t withTrailers) Invoke(ctx context.Context, method string, in, out any, more ...grpc.CallOption) error {
	var said metadata.MD
	err := t.ClientConnInterface.Invoke(ctx, method, in, out, append(more, grpc.Trailer(&said))...)
	tell(t.w, said)
	return err
}

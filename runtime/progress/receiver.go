package progress

import (
	"bufio"
	"container/list"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// This file contains the endpoint of the Kubeflow Trainer progress protocol: a listener on loopback that answers one
// small request per connection. It does not use http.Server, so that all of its limits are in this file and the agent's
// binary stays small. Any process of the node can connect to it, so a request must cost little until its token is
// known.

const (
	postPath = "/progress"
	// maxHeaderBytes bounds the request line and the headers of a request.
	maxHeaderBytes = 16 << 10
	// postPatience bounds the time of one request.
	postPatience = 5 * time.Second
	// maxConnections bounds the number of open connections. A new connection replaces the oldest one.
	maxConnections = 64
	// postsPerSecond and postsAtOnce bound the rate of the requests of all tasks. Faster requests are delayed.
	postsPerSecond = 1000
	postsAtOnce    = 200
)

// Receiver receives the requests of the tasks of one node.
type Receiver struct {
	listener net.Listener
	done     sync.WaitGroup

	mu     sync.Mutex
	tasks  map[TokenHash]func(Report)
	open   *list.List // connections, oldest first
	closed bool
}

// TokenHash is the hash of a task's token. The token itself is only in the file that the task reads.
type TokenHash [sha256.Size]byte

// HashToken returns the hash of a token.
func HashToken(token string) TokenHash { return sha256.Sum256([]byte(token)) }

// Listen starts a receiver on a port of the loopback address; 0: any port.
func Listen(port int) (*Receiver, error) {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return nil, err
	}
	r := &Receiver{listener: l, tasks: map[TokenHash]func(Report){}, open: list.New()}
	r.done.Go(r.accept)
	return r, nil
}

// Port returns the port of the receiver.
func (r *Receiver) Port() int { return r.listener.Addr().(*net.TCPAddr).Port }

// URL returns the address to which tasks send their progress.
func (r *Receiver) URL() string { return fmt.Sprintf("http://127.0.0.1:%d%s", r.Port(), postPath) }

// Add registers a token. take gets the reports of its requests, and must not block.
func (r *Receiver) Add(token TokenHash, take func(Report)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tasks[token] = take
}

// Remove removes a token.
func (r *Receiver) Remove(token TokenHash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.tasks, token)
}

// Close stops the receiver and all requests.
func (r *Receiver) Close() {
	r.listener.Close()
	r.mu.Lock()
	r.closed = true
	for e := r.open.Front(); e != nil; e = e.Next() {
		e.Value.(net.Conn).Close()
	}
	r.mu.Unlock()
	r.done.Wait()
}

// accept accepts connections at a limited rate.
func (r *Receiver) accept() {
	budget, last := float64(postsAtOnce), time.Now()
	for {
		c, err := r.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // for example, no descriptors are left
			time.Sleep(100 * time.Millisecond)
			continue
		}
		now := time.Now()
		budget = min(budget+now.Sub(last).Seconds()*postsPerSecond, postsAtOnce) - 1
		if last = now; budget < 0 {
			time.Sleep(time.Second / postsPerSecond)
		}
		r.serve(c)
	}
}

// serve answers a connection in a new goroutine.
func (r *Receiver) serve(c net.Conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		c.Close()
		return
	}
	if r.open.Len() >= maxConnections {
		r.open.Remove(r.open.Front()).(net.Conn).Close()
	}
	place := r.open.PushBack(c)
	r.done.Go(func() {
		answer(c, r.handle)
		c.Close()
		r.mu.Lock()
		r.open.Remove(place)
		r.mu.Unlock()
	})
}

// answer reads one request and writes the answer that handle returns.
func answer(c net.Conn, handle func(*http.Request) (code int, body []byte)) {
	_ = c.SetDeadline(time.Now().Add(postPatience))
	limited := &io.LimitedReader{R: c, N: maxHeaderBytes}
	request, err := http.ReadRequest(bufio.NewReader(limited))
	code, body := http.StatusUnprocessableEntity, failure(http.StatusUnprocessableEntity, "the request is not valid HTTP")
	if err == nil {
		limited.N = maxBodyBytes + maxHeaderBytes
		if strings.EqualFold(request.Header.Get("Expect"), "100-continue") {
			_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
		}
		code, body = handle(request)
	}
	fmt.Fprintf(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s",
		code, http.StatusText(code), len(body), body)
	if tcp, ok := c.(*net.TCPConn); ok { // unread data would reset the connection before the client reads the answer
		_ = tcp.CloseWrite()
		limited.N = maxBodyBytes
		_, _ = io.Copy(io.Discard, limited)
	}
}

// handle answers a request as the protocol requires.
func (r *Receiver) handle(request *http.Request) (int, []byte) {
	if request.URL.Path != postPath || request.Method != http.MethodPost {
		return http.StatusNotFound, failure(http.StatusNotFound, "send POST to "+postPath)
	}
	token, ok := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	r.mu.Lock()
	take := r.tasks[HashToken(token)]
	r.mu.Unlock()
	if !ok || take == nil {
		return http.StatusForbidden, failure(http.StatusForbidden,
			"the token is missing or does not belong to a running task")
	}
	body, err := io.ReadAll(io.LimitReader(request.Body, maxBodyBytes+1))
	switch {
	case len(body) > maxBodyBytes:
		return http.StatusRequestEntityTooLarge, failure(http.StatusRequestEntityTooLarge, "the body is larger than 64 KiB")
	case err != nil:
		return http.StatusUnprocessableEntity, failure(http.StatusUnprocessableEntity, "the body ends early")
	}
	p, err := parsePosted(body)
	if err != nil {
		return http.StatusUnprocessableEntity, failure(http.StatusUnprocessableEntity, err.Error())
	}
	take(p.report())
	echo, err := json.Marshal(p)
	if err != nil {
		return http.StatusUnprocessableEntity, failure(http.StatusUnprocessableEntity, err.Error())
	}
	return http.StatusOK, echo
}

// reasons maps status codes to the reasons that Kubernetes uses.
var reasons = map[int]string{
	http.StatusForbidden: "Forbidden", http.StatusNotFound: "NotFound",
	http.StatusRequestEntityTooLarge: "RequestEntityTooLarge", http.StatusUnprocessableEntity: "Invalid",
}

// failure returns an error as a metav1.Status.
func failure(code int, text string) []byte {
	body, _ := json.Marshal(struct {
		Kind       string   `json:"kind"`
		APIVersion string   `json:"apiVersion"`
		Metadata   struct{} `json:"metadata"`
		Status     string   `json:"status"`
		Message    string   `json:"message"`
		Reason     string   `json:"reason"`
		Code       int      `json:"code"`
	}{"Status", "v1", struct{}{}, "Failure", text, reasons[code], code})
	return body
}

package notifications

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

// This file implements webhooks, which receive notifications as JSON by POST.

// Webhook posts to a URL. TokenFile, if set, contains a bearer token. It is read for each notification, so that it
// can be replaced.
type Webhook struct {
	URL, TokenFile string
	Timeout        time.Duration
}

// Tell posts a notification. Any 2xx status accepts it. Redirects are not followed, because the notification is
// meant only for the URL in the rule.
func (w Webhook) Tell(ctx context.Context, n *Notification) error {
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, w.Timeout)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(text))
	if err != nil {
		return err
	}
	q.Header.Set("Content-Type", "application/json")
	if w.TokenFile != "" {
		token, err := os.ReadFile(w.TokenFile)
		if err != nil {
			return err
		}
		q.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(q)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 4096) // allows the connection to be reused
	if answer.StatusCode/100 != 2 {
		return fmt.Errorf("%s answers %s", w.URL, answer.Status)
	}
	return nil
}

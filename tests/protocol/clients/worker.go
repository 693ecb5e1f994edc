// Go Worker
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
)

func main() {
	apiURL := os.Getenv("API_URL")
	apiKey := os.Getenv("SECRET_KEY")

	for {
		req, _ := http.NewRequest("GET", apiURL+"/message?timeout=30", nil)
		req.Header.Set("X-API-KEY", apiKey)
		resp, _ := http.DefaultClient.Do(req)

		if resp.StatusCode == 200 {
			body, _ := io.ReadAll(resp.Body)
			var message map[string]interface{}
			json.Unmarshal(body, &message)

			// Process...
			processVideo(message["payload"])

			// Acknowledge
			ackData, _ := json.Marshal(map[string]interface{}{
				"id":         message["id"],
				"lock_token": message["lock_token"],
			})
			ackReq, _ := http.NewRequest("POST", apiURL+"/ack", bytes.NewBuffer(ackData))
			ackReq.Header.Set("Content-Type", "application/json")
			ackReq.Header.Set("X-API-KEY", apiKey)
			http.DefaultClient.Do(ackReq)
			fmt.Println("acknowledged")
		}
	}
}

func processVideo(payload interface{}) {
	fmt.Println(payload.(map[string]interface{})["file"])
}

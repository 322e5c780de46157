"""The yardsticks: scripts that do what ORE does with the same client and nothing else.

Each is run with ``python -c``; the server's address is its argument.
"""

CALL = """
import sys, ollama
client = ollama.Client(host=sys.argv[1])
messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
print(client.chat(model="llama3.2", messages=messages).message.content)
"""

STREAM = """
import sys, ollama
client = ollama.Client(host=sys.argv[1])
messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
for part in client.chat(model="llama3.2", messages=messages, stream=True):
    sys.stdout.write(part.message.content)
    sys.stdout.flush()
"""

LOOP = """
import sys, ollama
client = ollama.Client(host=sys.argv[1])
is_conversation = len(sys.argv) > 2
messages = [{"role": "system", "content": "Be brief."}]
for line in sys.stdin:
    asked = [*messages, {"role": "user", "content": line.strip()}]
    parts = client.chat(model="llama3.2", messages=asked, stream=True)
    answer = "".join(part.message.content for part in parts)
    print(answer, flush=True)
    if is_conversation:
        messages = [*asked, {"role": "assistant", "content": answer}]
"""

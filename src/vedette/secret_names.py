"""Which names mean a secret: `api_key` and `dbPassword` do, `num_tokens` and `sort_key` do not.

A name is cut into words, since `num_tokens` and `api_token` differ in the words before. Nothing here does I/O.
"""

import re

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_ALWAYS = frozenset(
    "passwd passphrase secret secrets credential credentials cred creds authorization bearer sshpass passkey".split()
)
_ENDINGS = (
    "password", "passwords", "passwd", "passphrase", "passcode", "pincode", "apikey", "apikeys", "secret", "secretkey",
    "accesskey", "accountkey", "privatekey", "privkey", "masterkey", "signingkey", "encryptionkey", "credentials",
    "sessionid", "sessid",
)  # fmt: skip
_LAST = frozenset("auth jwt sas oauth csrf xsrf otp totp cvv".split())  # only as the last word
_OWNERS = frozenset(  # services whose keys are secrets: `wandb_key`, and `key` below `wandb`
    "api aws azure openai wandb kaggle comet neptune hf huggingface anthropic cohere mistral gemini groq openrouter"
    " deepseek replicate roboflow clearml pinecone langsmith langchain tavily serpapi elevenlabs deepgram ngc"
    " datadog sentry stripe twilio sendgrid gcp github gitlab".split()
)
_PARTS = frozenset("config cfg conf settings options args kwargs params login account client logger".split())
# Words before another one that make it a secret: `signing_key`, `db_pass`, `seed_phrase`.
_BEFORE = {
    "key": _OWNERS.union(
        "access secret private encryption decryption signing ssh account subscription app master storage service auth"
        " hmac deploy license licence session shared preshared client consumer rsa pgp gpg aes fernet symmetric jwt"
        " unseal recovery cookie".split()
    ),
    "pass": frozenset("db user admin root mysql smtp ftp ssh login mail ldap proxy key store".split()),
    "pw": frozenset("db user admin root login".split()),
    "psk": frozenset("wifi wpa ipsec vpn".split()),
    "phrase": frozenset("pass seed recovery backup".split()),
    "code": frozenset("otp mfa auth oauth authorization recovery backup security verification pin totp sms".split()),
    "verifier": frozenset("oauth code pkce".split()),
    "tokens": frozenset("auth access api bearer refresh secret".split()),
    "id": frozenset(["session"]),
    # A signature of a request is as good as a password. That of a model or a function is how it is called.
    "signature": frozenset(
        "access amz hub webhook request hmac url aws auth jwt token payload signed slack stripe github goog sas"
        " http cookie session x".split()
    ),
}
# Words before `token` that mean a token of text, as in language models: `pad_token` is not a secret.
_OF_TEXT = frozenset(
    "num max min n pad bos eos unk mask sep cls special stop image audio video next per last first start end begin"
    " new no of total avg mean by extra added prefix suffix eot word sub pre time patch text input output prompt"
    " decoder encoder vocab target source separator fim think tool user assistant system dummy placeholder register"
    " class object query latent reg blank null sentinel pos unexpected expected illegal unrecognized page pagination"
    " continuation sos initializer boi eoi boa eoa bod eod distillation padding modifier".split()
)
# Words after a secret's name that mean something else than the secret itself: `password_file`.
_ABOUT = frozenset(
    "file files path paths dir directory folder name names count counts len length size sizes type types kind url"
    " uri endpoint method mode enabled required expiry expires ttl timeout expiration limit limits budget ids index"
    " indices dim dims embedding embeddings embed embeds loss rate rates per freq frequency ratio prob dropout"
    " merging mixing pruning drop shift bucket buckets level usage used manager provider backend scheme version min"
    " max format hash policy shape shapes dtype idx position positions pos mask masks weight weights classification"
    " accuracy acc env var variable field fields prompt ref arn strength store engine helper age domain jar column"
    " algorithm status state error errors attempts retries days lifetime duration handler validator rotation prefix"
    " regex cls stdin".split()
)
_STILL = frozenset("value secret key header".split())  # words after a secret's name that mean it still
_AFTER_KEY = _STILL.union("id pem base64 b64".split())
_ASKING = frozenset("has is needs requires verify num n count max min total".split())  # first: `has_password`


def is_secret(key: str) -> bool:
    """Tell whether a value with this name is a secret: `api_key` and `dbPassword` are, `num_tokens` is not.

    The name may have its parent before a dot: `key` alone is not a secret, `wandb.key` is one.
    """
    parent, _, name = key.rpartition(".")
    words = [word.lower() for word in _WORD.findall(name or key)]
    while words and words[-1].isdigit():
        words.pop()
    if not words or words[-1] in _ABOUT or words[0] in _ASKING:
        return False
    if words == ["key"]:
        return owns_keys(parent.rpartition(".")[2])
    return words == ["signature"] or any(_tells(words, at) for at in range(len(words)))


def _tells(words: list[str], at: int) -> bool:
    """Tell whether the word at this place makes a name that of a secret."""
    word, before, after = words[at], words[at - 1] if at else "", words[at + 1 : at + 2]
    if word in _ALWAYS or word.endswith(_ENDINGS):
        return True
    if word == "pwd":  # alone it is the working directory
        return before not in ("", "old")
    if word.endswith("token"):
        means_text = (before if word == "token" else word[:-5]) in _OF_TEXT
        return not means_text and (not after or after[0] in _STILL)
    if word.endswith(("cookie", "cookies")):
        return not after or after[0] in _STILL
    if word in ("key", "keys"):
        return before in _BEFORE["key"] and (not after or after[0] in _AFTER_KEY)
    if after:
        return False
    singular = word.removesuffix("s") if word in ("codes", "phrases") else word
    return word in _LAST or before in _BEFORE.get(singular, ())


def owns_keys(name: str) -> bool:
    """Tell whether a `key` below this name is a secret: below `wandb` it is, below `sort` it is not."""
    words = [word.lower() for word in _WORD.findall(name)]
    while len(words) > 1 and words[-1] in _PARTS:
        words.pop()
    return bool(words) and words[-1] in _OWNERS
